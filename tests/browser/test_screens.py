"""Every screen, at both widths and in both themes."""

from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page

from commonbrain.web.screens import all_screens
from tests.browser.axe import serious_faults
from tests.browser.conftest import HEIGHT, NARROW, WIDE, Site

PATHS = {
    "search": "/search?query=when+does+the+shop+deploy",
    "boot": "/boot?project=shop&task=Deploy+the+shop",
    "admin_audit": "/admin/audit?action=create",
    "admin_tenants": "/admin/tenants?name=default",
}
"""The address that shows most of a screen, where its own shows little."""


def address(site: Site, name: str) -> str:
    """The address of a screen in the demo's store."""
    path = next(one.path for one in all_screens() if one.name == name)
    id_ = site.demo.thread if name == "thread" else site.demo.postgres_17
    return site.url + PATHS.get(name, path).replace("{id}", id_)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("name", [one.name for one in all_screens()])
def test_screen_is_accessible_and_has_no_horizontal_scrolling(
    page: Page,
    site: Site,
    request: pytest.FixtureRequest,
    *,
    name: str,
    width: int,
    scheme: Literal["light", "dark"],
) -> None:
    page.set_viewport_size({"width": width, "height": HEIGHT})
    page.emulate_media(color_scheme=scheme)
    response = page.goto(address(site, name))
    assert response is not None
    assert response.status == 200
    assert serious_faults(page) == []
    overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert overflow <= 0
    folder: Path | None = request.config.getoption("--pictures")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=True)
