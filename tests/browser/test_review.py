"""The review queue in a browser: settled by keys alone, undone, and by two people at once."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from commonbrain.client import Brain
from commonbrain.model.memory import State
from tests.browser.conftest import HEIGHT, WIDE, Site
from tests.browser.review_items import Queue, fill_queue


@pytest.fixture(scope="module")
def queue(site: Site) -> Queue:
    return fill_queue(site.brain)


@pytest.fixture
def second_page(chromium: Browser, site: Site) -> Iterator[Page]:
    """The browser of a second person, who is logged in too."""
    context = chromium.new_context(viewport={"width": WIDE, "height": HEIGHT})
    page = context.new_page()
    page.goto(site.link())
    yield page
    context.close()


def decide(page: Page, key: str) -> str:
    """Press a key on the item that is shown, wait for the next one, and return the notice."""
    shown = page.locator("#item [name=item]").first.get_attribute("value")
    page.keyboard.press(key)
    expect(page.locator(f'#item [name=item][value="{shown}"]')).to_have_count(0)
    return page.locator(".notice").inner_text()


def state_of(brain: Brain, id_: str) -> State:
    return brain.get(id_, bump=False).state


def open_items(brain: Brain, category: str) -> int:
    return len(getattr(brain.review(category, limit=100), category))


def test_queue_is_settled_by_keys_alone(page: Page, site: Site, queue: Queue) -> None:
    page.goto(f"{site.url}/review?project=shop")
    pressed = 0
    for category, keys in (
        ("conflicts", "12b121"),
        ("needs_review", "hhdhhhh"),
        ("proposals", "ararar"),
    ):
        for key in keys:
            expect(page.locator("#item [name=category]").first).to_have_attribute("value", category)
            decide(page, key)
            assert page.evaluate("document.activeElement.id") == "item"
            pressed += 1
        assert open_items(site.brain, category) == 0
    assert pressed == 19
    for key in "12b":
        decide(page, key)
    assert state_of(site.brain, queue.proposals[0]) in {State.ACTIVE, State.FORGOTTEN}
