"""A person finds a memory, corrects it, and takes it back: by keys, and without scripts."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Site, log_in


@pytest.fixture
def plain(chromium: Browser, site: Site) -> Page:
    """A browser that runs no scripts."""
    page = chromium.new_context(java_script_enabled=False).new_page()
    log_in(page, site.link(), has_scripts=False)
    return page


def test_memory_is_searched_selected_and_opened_by_keyboard(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("when does the shop deploy")
    page.keyboard.press("Enter")
    expect(page).to_have_title(re.compile("when does the shop deploy"))
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.locator(".current-row")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/memory/mem_"))


def test_keyboard_shortcuts_are_listed_and_open_screens(page: Page) -> None:
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("b")
    expect(page.get_by_role("heading", name="Browse")).to_be_visible()


def test_memory_is_corrected_and_the_undo_key_restores_it(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/memory/{site.demo.task}")
    page.keyboard.press("e")
    page.keyboard.press("Control+A")
    page.keyboard.type("Write the runbook for migrations and test it")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_contain_text(
        "Write the runbook for migrations and test it"
    )
    assert site.brain.get(site.demo.task).state == "superseded"
    page.keyboard.press("u")
    expect(page.get_by_role("status")).to_contain_text("undo done")
    assert site.brain.get(site.demo.task).state == "active"


def test_history_marks_the_words_that_changed(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/memory/{site.demo.postgres_17}")
    expect(page.locator("del").first).to_have_text("15")
    expect(page.locator("ins").first).to_contain_text("17")


@pytest.mark.requirement("CL-18")
def test_agent_recalls_a_correction_made_on_the_page(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/memory/{site.demo.incident}")
    page.locator("summary", has_text="Correct").click()
    page.get_by_label("What holds now").fill(
        "Checkout failed for 55 minutes because a migration locked the orders table."
    )
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_be_visible()
    agent = site.brain.acting_as(agent="codex", project="shop")
    results = agent.recall("how long did the checkout fail?")
    assert "55 minutes" in (results.items[0].body or "")


def test_memory_is_forgotten_with_a_reason_and_restored_by_undo(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/memory/{site.demo.fridays}")
    page.locator("summary", has_text="Forget").click()
    form = page.locator("form", has=page.get_by_role("button", name="Forget"))
    form.get_by_label("Reason").fill("it was never true")
    form.get_by_role("button", name="Forget").click()
    expect(page.get_by_role("status")).to_contain_text("The shop deploys on Fridays")
    page.get_by_role("button", name="Undo").click()
    assert site.brain.get(site.demo.fridays).state == "active"


def test_date_slider_repeats_the_search_as_of_an_earlier_day(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/search?query=which+database+does+the+shop+run+on")
    expect(page.get_by_role("heading", name=re.compile("^Now"))).to_be_visible()
    slider = page.get_by_label("As of")
    slider.focus()
    slider.press("ArrowLeft")
    expect(page.locator("#then-title")).to_be_visible()
    expect(page).to_have_url(re.compile("days_back=1"))


def test_graph_of_a_memory_is_drawn_with_its_linked_memories(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/graph/{site.demo.redis}?depth=1")
    drawing = page.locator("#graph")
    expect(drawing).to_have_attribute("data-drawn", re.compile("^[1-9]"))
    expect(page.get_by_role("link", name="The shop runs on Postgres 15")).to_be_visible()


def test_search_annotation_and_undo_work_without_javascript(plain: Page, site: Site) -> None:
    plain.goto(f"{site.url}/search?query=redis&days_back=3")
    assert plain.locator(".row").count() > 0
    plain.goto(f"{site.url}/memory/{site.demo.redis}")
    plain.get_by_text("Annotate", exact=True).click()
    plain.get_by_label("Note").fill("Checked with the team")
    plain.get_by_role("button", name="Add the note").click()
    expect(plain.get_by_role("status")).to_contain_text("annotate done")
    notes = site.brain.get(site.demo.redis, views=["annotations"]).annotations or ()
    assert [one.text for one in notes] == ["Checked with the team"]
    plain.get_by_role("button", name="Undo").click()
    assert not site.brain.get(site.demo.redis, views=["annotations"]).annotations


def test_script_in_a_memory_is_not_executed(page: Page, site: Site) -> None:
    for path in (f"/memory/{site.demo.hostile}", "/search?query=click+evil", "/browse", "/"):
        page.goto(site.url + path)
        expect(page).not_to_have_title("taken")
