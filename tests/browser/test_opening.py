"""The file by which `brain ui` opens a browser leads a real browser into its session."""

from playwright.sync_api import Browser, expect

from commonbrain.cli.ui import redirect_page
from tests.browser.conftest import TIMEOUT_MS, Site


def test_redirect_page_logs_the_browser_in(chromium: Browser, site: Site) -> None:
    page = chromium.new_context().new_page()
    with redirect_page(site.link()) as address:
        page.goto(address)
        # A browser sends a strict cookie only when the page itself asks again.
        expect(page.get_by_role("heading", name="Learnt today")).to_be_visible(timeout=TIMEOUT_MS)
    assert page.url == f"{site.url}/"
    page.context.close()
