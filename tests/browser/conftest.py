import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

import commonbrain
from commonbrain.api.thread_limiter import ThreadLimiter
from commonbrain.client import Brain
from commonbrain.web.app import make_page
from commonbrain.web.backups import Backups
from commonbrain.web.logins import LinkLogins
from commonbrain.web.page_settings import PageSettings
from commonbrain.web.private_path import PrivatePath, new_private_path
from tests.serving import listening
from tests.web.demo import Demo, fill

WIDE, NARROW = 1440, 390
HEIGHT = 900
TIMEOUT_MS = 15_000
"""How long an element may take to appear on a busy machine."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pictures", type=Path, help="Folder in which pictures of the page are put.")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.fail("These tests need Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass(slots=True)
class Site:
    """A page that is served, with its store."""

    url: str
    brain: Brain
    demo: Demo
    sessions: LinkLogins
    faults: list[str] = field(default_factory=list[str])
    """What the browser's console complains of; empty if all is well."""

    def link(self) -> str:
        """Return a new link that logs in once."""
        return f"{self.url}/open?token={self.sessions.make_link()}"


def log_in(page: Page, link: str, *, has_scripts: bool = True) -> None:
    """Follow a link that logs in once; its form sends itself in a browser that runs scripts."""
    page.goto(link)
    if not has_scripts:
        page.get_by_role("button", name="Open the page").click()
    page.wait_for_url(f"{link.partition('open?')[0]}")


@contextmanager
def serve(path: Path, *, agent: str) -> Generator[Site]:
    """Serve the page of a new store with the demo's memories."""
    with commonbrain.open(path, agent=agent) as brain:
        demo = fill(brain)
        with serve_brain(brain) as (url, sessions):
            yield Site(url=url, brain=brain, demo=demo, sessions=sessions)


@contextmanager
def serve_brain(
    brain: Brain, *, backups: Backups | None = None
) -> Generator[tuple[str, LinkLogins]]:
    """Serve the page of an open store as `brain ui` does; yields its address and its logins."""
    sessions = LinkLogins(brain.caller, brain.services.clock)
    threads = ThreadLimiter(4, seconds_max=30)
    settings = PageSettings(path=new_private_path())
    page = make_page(brain, sessions, threads=threads, settings=settings, backups=backups)
    with listening(PrivatePath(page, path=settings.path)) as url:
        yield f"{url}{settings.path}", sessions
    threads.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A page with a store of its own, for the tests of one file."""
    with serve(tmp_path_factory.mktemp("site") / "brain.db", agent="ann") as site:
        yield site


@pytest.fixture
def page(chromium: Browser, site: Site) -> Iterator[Page]:
    """A browser that is logged in; at its end, its console must hold no complaint."""
    context = chromium.new_context(viewport={"width": WIDE, "height": HEIGHT})
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    site.faults.clear()
    page.on("console", lambda message: _note(site, message.type, message.text))
    page.on("pageerror", lambda error: site.faults.append(str(error)))
    log_in(page, site.link())
    yield page
    context.close()
    assert site.faults == []


def _note(site: Site, kind: str, text: str) -> None:
    if kind in {"error", "warning"}:
        site.faults.append(text)
