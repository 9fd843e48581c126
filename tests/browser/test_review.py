"""The review queue in a browser: settled by keys alone, undone, and by two people at once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from commonbrain.model.memory import State
from tests.browser.axe import serious_faults
from tests.browser.conftest import HEIGHT, NARROW, WIDE, Site, log_in, serve
from tests.web.review_items import Queue, fill_queue

REASON = "The release notes say so."


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A page with a store of its own for each test, which settles items."""
    with serve(tmp_path / "brain.db", agent="ann") as site:
        yield site


@pytest.fixture
def queue(site: Site) -> Queue:
    return fill_queue(site.brain)


@pytest.fixture
def second_page(chromium: Browser, site: Site, page: Page) -> Iterator[Page]:
    """The browser of a second person, who is logged in too."""
    assert page.url
    context = chromium.new_context(viewport={"width": WIDE, "height": HEIGHT})
    second = context.new_page()
    log_in(second, site.link())
    yield second
    context.close()


def shown_item(page: Page) -> tuple[str, ...]:
    """The ids of the item that is shown."""
    text = page.locator("#item [name=item]").first.get_attribute("value")
    assert text is not None
    return tuple(text.split(","))


def decide(page: Page, key: str) -> str:
    """Press a key on the item that is shown, wait for the next one, and return the notice."""
    item = ",".join(shown_item(page))
    page.keyboard.press(key)
    expect(page.locator(f'#item [name=item][value="{item}"]')).to_have_count(0)
    return page.locator(".notice p").first.inner_text()


def state_of(site: Site, id_: str) -> State:
    return site.brain.get(id_, bump=False).state


def open_items(site: Site, category: str) -> int:
    return len(getattr(site.brain.review(category, limit=100), category))


@pytest.mark.requirement("CL-19")
def test_review_queue_is_settled_by_keyboard_alone(page: Page, site: Site, queue: Queue) -> None:
    """Twenty and more items of every category, each key at least once."""
    assert queue.conflicts
    page.goto(f"{site.url}/review")
    for category, keys in (
        ("conflicts", "12b121"),
        ("needs_review", "hhdhhhh"),
        ("proposals", "ararar"),
        ("duplicates", "12b"),
    ):
        for key in keys:
            expect(page.locator("#item [name=category]").first).to_have_attribute("value", category)
            first, last = shown_item(page)[0], shown_item(page)[-1]
            decide(page, key)
            # The next item has the focus at once, so that a screen reader begins to read it.
            assert page.evaluate("document.activeElement.id") == "item"
            ended = {"1": last, "2": first, "d": first, "r": first}.get(key)
            held = {"1": first, "2": last, "b": last, "h": first, "a": first}.get(key)
            if ended:
                assert state_of(site, ended) in {State.SUPERSEDED, State.FORGOTTEN}
            if held:
                assert state_of(site, held) is State.ACTIVE
        if category != "duplicates":
            assert open_items(site, category) == 0


def test_undo_returns_the_item_to_the_queue(page: Page, site: Site, queue: Queue) -> None:
    assert queue.conflicts
    page.goto(f"{site.url}/review?category=conflicts")
    before = open_items(site, "conflicts")
    item = shown_item(page)
    assert decide(page, "1").startswith("resolve done")
    assert open_items(site, "conflicts") == before - 1
    page.keyboard.press("u")
    expect(page.locator(".notice")).to_contain_text("undo done")
    assert shown_item(page) == item
    assert open_items(site, "conflicts") == before
    assert [state_of(site, id_) for id_ in item] == [State.ACTIVE, State.ACTIVE]


def test_memory_is_corrected_in_the_queue_by_keyboard(page: Page, site: Site, queue: Queue) -> None:
    page.goto(f"{site.url}/review?category=needs_review&at={queue.needs_review[0]}")
    assert shown_item(page) == queue.needs_review[:1]
    expect(page.locator(".paths")).to_contain_text("The checkout queue runs on Redis 6")
    expect(page.locator(".paths .current")).to_contain_text("The checkout queue runs on Valkey 8")
    page.keyboard.press("c")
    page.keyboard.press("Control+A")
    page.keyboard.type("Workers of the checkout jobs block on BLMOVE for two seconds.")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".notice")).to_contain_text("BLMOVE")
    old = site.brain.get(queue.needs_review[0], bump=False)
    assert old.state is State.SUPERSEDED
    assert "BLMOVE" in (site.brain.get(old.current_id, bump=False).body or "")


def test_reason_is_stored_and_enter_in_its_field_decides_nothing(
    page: Page, site: Site, queue: Queue
) -> None:
    page.goto(f"{site.url}/review?category=proposals&at={queue.proposals[2]}")
    field = page.locator("#item [name=reason]").first
    field.fill(REASON)
    field.press("Enter")
    assert state_of(site, queue.proposals[2]) is State.QUARANTINED
    field.press("Escape")
    decide(page, "a")
    history = site.brain.get(queue.proposals[2], views=["history"], bump=False).history
    assert history
    assert history[-1].reason == REASON


@pytest.mark.parametrize(
    ("category", "keys"),
    [
        ("conflicts", "12"),
        ("conflicts", "b1"),
        ("needs_review", "hd"),
        ("proposals", "ra"),
        ("duplicates", "b1"),
    ],
)
def test_second_reviewer_of_an_item_sees_the_first_decision_and_changes_nothing(
    page: Page, second_page: Page, site: Site, *, category: str, keys: str
) -> None:
    first_key, second_key = keys
    fill_queue(site.brain)
    for one in (page, second_page):
        one.goto(f"{site.url}/review?category={category}")
    item = shown_item(page)
    assert shown_item(second_page) == item
    decide(page, first_key)
    states = [state_of(site, id_) for id_ in item]
    histories = [site.brain.get(id_, views=["history"], bump=False).history for id_ in item]
    notice = decide(second_page, second_key)
    assert notice.startswith("ann ")
    assert "just now" in notice
    assert "settled on the page" in notice
    assert notice.endswith("Nothing was changed.")
    assert [state_of(site, id_) for id_ in item] == states
    assert [site.brain.get(id_, views=["history"], bump=False).history for id_ in item] == histories


def test_url_of_a_settled_item_shows_who_decided_and_why(
    page: Page, site: Site, queue: Queue
) -> None:
    address = f"{site.url}/review?category=needs_review&at={queue.needs_review[1]}"
    site.brain.acting_as(agent="bob").revise.review(queue.needs_review[1], reason=REASON)
    page.goto(address)
    expect(page.locator(".notice")).to_contain_text(
        f"bob confirmed {queue.needs_review[1]} just now: {REASON}"
    )
    assert shown_item(page) != queue.needs_review[1:2]


def test_skipping_all_items_leads_to_the_next_category(
    page: Page, site: Site, queue: Queue
) -> None:
    assert queue.conflicts
    page.goto(f"{site.url}/review")
    seen: list[tuple[str, ...]] = []
    for _ in range(open_items(site, "conflicts")):
        seen.append(shown_item(page))
        decide_nothing(page)
    assert len(set(seen)) == len(seen)
    expect(page.locator("#item [name=category]").first).to_have_attribute("value", "needs_review")


def decide_nothing(page: Page) -> None:
    item = ",".join(shown_item(page))
    page.keyboard.press("n")
    expect(page.locator(f'#item [name=item][value="{item}"]')).to_have_count(0)


def test_queue_is_settled_without_javascript(chromium: Browser, site: Site, queue: Queue) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    log_in(page, site.link(), has_scripts=False)
    page.goto(f"{site.url}/review?category=proposals&at={queue.proposals[0]}")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".notice")).to_contain_text("approve done")
    assert state_of(site, queue.proposals[0]) is State.ACTIVE
    page.get_by_role("button", name="Undo").click()
    assert state_of(site, queue.proposals[0]) is State.QUARANTINED
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_every_category_is_accessible_and_has_no_horizontal_scrolling(
    page: Page, site: Site, queue: Queue, *, width: int, scheme: Literal["light", "dark"]
) -> None:
    assert queue.conflicts
    page.set_viewport_size({"width": width, "height": HEIGHT})
    page.emulate_media(color_scheme=scheme)
    for category in ("conflicts", "needs_review", "proposals", "duplicates"):
        page.goto(f"{site.url}/review?category={category}")
        assert serious_faults(page) == []
        assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
