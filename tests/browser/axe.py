"""Checks a page with axe-core."""

from typing import Any, Final

from axe_playwright_python.sync_playwright import Axe  # pyright: ignore[reportMissingTypeStubs]
from playwright.sync_api import Page

_SERIOUS: Final = {"serious", "critical"}


def serious_faults(page: Page) -> list[str]:
    """Return what serious faults of accessibility the page has, each with its first place."""
    report: dict[str, Any] = Axe().run(page).response  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return [
        f"{one['help']}: {one['nodes'][0]['html']}"
        for one in report["violations"]
        if one["impact"] in _SERIOUS
    ]
