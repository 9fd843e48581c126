"""The plots of the health screen: drawn by a script, with their numbers for everyone."""

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import HEIGHT, NARROW, WIDE, Site, log_in

_INK = """box => {
  const canvas = box.querySelector("canvas");
  const copy = new OffscreenCanvas(canvas.width, canvas.height);
  const context = copy.getContext("2d", {willReadFrequently: true});
  context.drawImage(canvas, 0, 0);
  const pixels = context.getImageData(0, 0, copy.width, copy.height).data;
  return pixels.reduce((sum, value) => sum + value, 0);
}"""
"""What is drawn, as a number; read from a copy, since browsers complain of repeated reads."""


@pytest.fixture
def health(page: Page, site: Site) -> Page:
    site.brain.recall("when does the shop deploy?")
    site.brain.services.journal.flush()
    page.goto(f"{site.url}/health")
    page.locator("html[data-plotted]").wait_for()
    return page


@pytest.mark.requirement("OB-08")
def test_plots_have_a_text_alternative_and_show_their_numbers_on_a_click(health: Page) -> None:
    plot = health.get_by_role("img", name="Hit quality and abstention by day")
    numbers = health.get_by_role("region", name="Hit quality and abstention by day, numbers")

    expect(plot.locator("canvas")).to_be_visible()
    expect(plot).to_have_attribute(
        "aria-label",
        r"Hit quality and abstention by day. "
        f"{plot.locator('xpath=preceding-sibling::p').inner_text()}",
    )
    expect(numbers).to_be_hidden()
    health.locator("section", has=plot).get_by_text("Numbers").click()
    expect(numbers.get_by_role("columnheader", name="No answer")).to_be_visible()


def test_plots_adapt_to_the_theme_and_the_window_width(health: Page) -> None:
    plot = health.locator("[data-plot=stored]")
    light = plot.evaluate(_INK)
    health.emulate_media(color_scheme="dark")
    # The page draws the plot again once it has heard of the change.
    health.wait_for_function(
        f"([box, before]) => ({_INK})(box) !== before", arg=[plot.element_handle(), light]
    )
    health.set_viewport_size({"width": NARROW, "height": HEIGHT})
    canvas = plot.locator("canvas")
    health.wait_for_function(
        "box => box.querySelector('canvas').clientWidth <= box.clientWidth",
        arg=plot.element_handle(),
    )

    box = canvas.bounding_box()
    assert box is not None
    assert 200 < box["width"] < NARROW


def test_numbers_of_the_plots_are_in_tables_without_javascript(
    chromium: Browser, site: Site
) -> None:
    context = chromium.new_context(
        java_script_enabled=False, viewport={"width": WIDE, "height": HEIGHT}
    )
    page = context.new_page()
    log_in(page, site.link(), has_scripts=False)
    page.goto(f"{site.url}/health")

    expect(page.locator("[data-plot]").first).to_be_hidden()
    stored = page.get_by_role("region", name="Memories stored by day and kind, numbers")
    expect(stored.get_by_role("columnheader", name="Incident")).to_be_visible()
    context.close()
