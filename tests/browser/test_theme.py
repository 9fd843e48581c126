"""The theme: the system's by default, or the one that a person chose, which is remembered."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import serious_faults
from tests.browser.conftest import HEIGHT, NARROW, WIDE, Site, log_in

LIGHT, DARK = "rgb(251, 251, 249)", "rgb(20, 23, 27)"


def ground(page: Page) -> str:
    """The colour of the background as it is painted."""
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_theme_key_switches_to_light_then_dark_then_the_system_theme(
    page: Page, site: Site
) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(f"{site.url}/")
    switch = page.get_by_role("button", name="Theme: the system's")
    expect(switch).to_be_visible()
    assert ground(page) == DARK
    page.keyboard.press("l")
    expect(page.get_by_role("button", name="Theme: light")).to_be_visible()
    assert ground(page) == LIGHT
    page.keyboard.press("l")
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    page.emulate_media(color_scheme="light")
    assert ground(page) == DARK
    page.keyboard.press("l")
    expect(switch).to_be_visible()
    assert ground(page) == LIGHT


def test_chosen_theme_is_in_the_html_of_the_next_page(page: Page, site: Site) -> None:
    page.emulate_media(color_scheme="light")
    page.goto(f"{site.url}/")
    for _ in range(2):
        page.get_by_role("button", name=re.compile("^Theme")).click()
    response = page.goto(f"{site.url}/browse")
    assert response is not None
    # The first paint has it, whatever the scripts do.
    assert '<html lang="en" data-theme="dark">' in response.text()
    assert '<meta name="color-scheme" content="dark">' in response.text()
    assert ground(page) == DARK


def test_other_tab_applies_the_chosen_theme_when_it_becomes_visible(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/browse")
    other = page.context.new_page()
    other.goto(f"{site.url}/")
    other.keyboard.press("l")
    page.bring_to_front()
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    assert page.locator("html").get_attribute("data-theme") == "light"
    other.close()


def test_graph_drawing_follows_the_chosen_theme(page: Page, site: Site) -> None:
    page.emulate_media(color_scheme="light")
    page.goto(f"{site.url}/graph/{site.demo.redis}?depth=1")
    expect(page.locator("#graph")).to_have_attribute("data-drawn", re.compile("^[1-9]"))
    before = page.locator("#graph").screenshot()
    for _ in range(2):
        page.keyboard.press("l")
    assert page.locator("#graph").screenshot() != before


def test_help_lists_the_theme_key(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("theme: the system's, light, dark")


def test_system_theme_is_used_without_javascript(chromium: Browser, site: Site) -> None:
    context = chromium.new_context(java_script_enabled=False, color_scheme="dark")
    page = context.new_page()
    log_in(page, site.link(), has_scripts=False)
    assert page.locator("html").get_attribute("data-theme") is None
    expect(page.locator("[data-theme-switch]")).to_be_hidden()
    context.close()


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_theme_that_differs_from_the_system_theme_is_accessible(
    page: Page, site: Site, *, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": HEIGHT})
    page.emulate_media(color_scheme="light")
    page.goto(f"{site.url}/")
    for _ in range(2):
        page.keyboard.press("l")
    for path in ("/", "/search?query=when+does+the+shop+deploy", f"/memory/{site.demo.redis}"):
        page.goto(site.url + path)
        assert serious_faults(page) == []
        overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert overflow <= 0
