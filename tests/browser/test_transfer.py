"""A person imports, exports and backs up in a browser, with progress and reports."""

import hashlib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

import commonbrain
from commonbrain.jobs.worker import EmbeddedWorker, Worker
from commonbrain.web.backups import Backups
from tests.browser.axe import serious_faults
from tests.browser.conftest import NARROW, TIMEOUT_MS, Site, log_in, serve_brain
from tests.web.demo import fill


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A page as `brain ui` serves it, with a worker and backups."""
    path = tmp_path_factory.mktemp("site") / "brain.db"
    with commonbrain.open(path, agent="ann") as brain:
        demo = fill(brain)
        worker, backups = EmbeddedWorker(brain.services, start_delay_s=0), Backups.of(brain)
        assert backups is not None
        worker.start()
        with serve_brain(brain, backups=backups) as (url, sessions):
            yield Site(url=url, brain=brain, demo=demo, sessions=sessions)
        backups.close()
        worker.close()


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A folder of notes as a zip; one of them holds a secret, one is no text."""
    path = tmp_path / "team-notes.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr(
            "notes/MEMORY.md",
            "# Shop\n\n## Ports\n\nThe staging port of the shop is 8080 for every service.\n\n"
            "## Access\n\nThe database of the shop has password=hunter2hunter2 everywhere.\n",
        )
        packed.writestr("notes/tea.md", b"# Tea\n\n\xff\xfe\n")
    return path


def send(page: Page, file: Path, *, button: str, format_: str = "markdown") -> None:
    page.locator("input[type=file]").set_input_files(file)
    page.get_by_label("Format").select_option(format_)
    page.get_by_role("button", name=button, exact=True).click()


def test_folder_is_previewed_then_imported_with_a_report(
    page: Page, site: Site, notes: Path
) -> None:
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.get_by_role("heading", name="Transfer")).to_be_visible()
    send(page, notes, button="Preview")
    preview = page.locator(".transfer", has_text="Preview of team-notes.zip")
    confirm = preview.get_by_role("button", name="Import it")
    # The screen fetches itself again until the job is done.
    expect(confirm).to_be_visible(timeout=TIMEOUT_MS)
    expect(page.locator("#work")).not_to_have_attribute("hx-trigger", "every 1s")
    confirm.click()
    done = page.locator(".transfer", has_text="Import of team-notes.zip")
    expect(done.locator(".outcome-stored dd")).to_have_text("1", timeout=TIMEOUT_MS)
    expect(done.locator(".outcome-rejected dd")).to_have_text("1")
    expect(done.locator(".outcome-unreadable dd")).to_have_text("1")
    expect(done).to_contain_text("This holds a secret")
    expect(done).to_contain_text("It is not UTF-8 text")
    expect(done).to_contain_text("Correct in the source what was refused")
    expect(confirm).to_have_count(0)
    assert serious_faults(page) == []
    page.set_viewport_size({"width": NARROW, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    assert "8080" in (site.brain.recall("staging port of the shop").items[0].body or "")


def test_downloaded_export_can_be_imported_again_without_new_memories(
    page: Page, site: Site, tmp_path: Path
) -> None:
    page.goto(f"{site.url}/transfer")
    page.get_by_role("button", name="Export everything").click()
    link = page.get_by_role("link", name="Download the export").first
    expect(link).to_be_visible(timeout=TIMEOUT_MS)
    with page.expect_download() as started:
        link.click()
    file = tmp_path / started.value.suggested_filename
    started.value.save_as(file)
    send(page, file, button="Import at once", format_="commonbrain")
    done = page.locator(".transfer", has_text=f"Import of {file.name}")
    expect(done.locator(".outcome-stored dd")).to_have_text("0", timeout=TIMEOUT_MS)
    expect(done.locator(".outcome-exists dd")).not_to_have_text("0")


def test_backup_is_written_into_a_folder_of_the_local_machine(
    page: Page, site: Site, tmp_path: Path
) -> None:
    page.goto(f"{site.url}/transfer")
    page.get_by_role("textbox", name="Folder").fill(str(tmp_path))
    page.get_by_role("button", name="Back up").click()
    expect(page.get_by_role("heading", name="The backup is written")).to_be_visible(
        timeout=TIMEOUT_MS
    )
    [file] = tmp_path.glob("*.db")
    expect(page.get_by_text(str(file), exact=True)).to_be_visible()
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    expect(page.get_by_text(digest).first).to_be_visible()
    with commonbrain.open(file) as copy:
        assert copy.get(site.demo.redis).body


def test_oversized_file_is_refused_before_it_is_sent(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/transfer")
    page.locator("input[type=file]").evaluate("(one) => { one.dataset.bytesMax = 3; }")
    page.locator("input[type=file]").set_input_files(
        {"name": "a.md", "mimeType": "text/markdown", "buffer": b"# Tea\n"}
    )
    page.get_by_role("button", name="Import at once").click()
    assert page.locator("input[type=file]").evaluate("(one) => one.validationMessage")
    expect(page.get_by_text("Import of a.md")).to_have_count(0)


def test_file_is_imported_without_javascript(chromium: Browser, site: Site, tmp_path: Path) -> None:
    plain = chromium.new_context(java_script_enabled=False).new_page()
    log_in(plain, site.link(), has_scripts=False)
    plain.goto(f"{site.url}/transfer")
    note = tmp_path / "plain.md"
    note.write_text("## Tea\n\nThe tea of the office is in the left drawer.\n", "utf-8")
    send(plain, note, button="Import at once")
    done = plain.locator(".transfer", has_text="Import of plain.md")
    # The page loads itself again.
    expect(done.locator(".outcome-stored dd")).to_have_text("1", timeout=TIMEOUT_MS)


def test_list_of_refusals_stays_open_or_closed_while_the_screen_refreshes(
    chromium: Browser, tmp_path: Path, notes: Path
) -> None:
    tea = tmp_path / "tea.md"
    tea.write_text("## Tea\n\nThe tea of the office is in the left drawer.\n", "utf-8")
    with (
        commonbrain.open(tmp_path / "brain.db", agent="ann") as brain,
        serve_brain(brain) as (url, sessions),
    ):
        page = chromium.new_context().new_page()
        log_in(page, f"{url}/open?token={sessions.make_link()}")
        page.goto(f"{url}/transfer")
        send(page, notes, button="Preview")
        Worker(services=brain.services, name="w", kinds=("import",)).sweep()
        page.goto(f"{url}/transfer")
        # Without a worker, the second job waits.
        send(page, tea, button="Import at once")
        refusals = page.locator("details.refusals")
        for is_open in (True, False):
            refusals.evaluate("(one, isOpen) => { one.open = isOpen; }", is_open)
            page.locator("#work").evaluate("(one) => { one.dataset.old = 'yes'; }")
            page.locator("#work:not([data-old])").wait_for(timeout=TIMEOUT_MS)
            assert refusals.evaluate("(one) => one.open") is is_open
        page.context.close()


def test_button_stays_focused_while_the_screen_refreshes(chromium: Browser, tmp_path: Path) -> None:
    note = tmp_path / "tea.md"
    note.write_text("## Tea\n\nThe tea of the office is in the left drawer.\n", "utf-8")
    # Without a worker, the job waits.
    with (
        commonbrain.open(tmp_path / "brain.db", agent="ann") as brain,
        serve_brain(brain) as (url, sessions),
    ):
        page = chromium.new_context().new_page()
        log_in(page, f"{url}/open?token={sessions.make_link()}")
        page.goto(f"{url}/transfer")
        send(page, note, button="Import at once")
        cancel = page.get_by_role("button", name="Cancel")
        cancel.focus()
        page.locator("#work").evaluate("(one) => { one.dataset.old = 'yes'; }")
        page.locator("#work:not([data-old])").wait_for(timeout=TIMEOUT_MS)
        expect(cancel).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator(".transfer.is-cancelled")).to_be_visible(timeout=TIMEOUT_MS)
        page.context.close()
