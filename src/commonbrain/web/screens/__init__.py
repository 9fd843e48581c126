"""The screens of the page: `SCREENS` is their table.

A screen is a function that makes a view, a frozen dataclass, from a visit, and a template that
shows it. The view is also what the address returns as JSON.
"""

from typing import Final

from commonbrain.web.screens.admin import ADMIN_SCREENS
from commonbrain.web.screens.boot import BOOT_SCREEN
from commonbrain.web.screens.browse import BROWSE, FACETS
from commonbrain.web.screens.health import HEALTH
from commonbrain.web.screens.home import HOME
from commonbrain.web.screens.memory import GRAPH, MEMORY
from commonbrain.web.screens.review import REVIEW_SCREEN
from commonbrain.web.screens.screen import Screen, page_parts
from commonbrain.web.screens.search import SEARCH
from commonbrain.web.screens.transfer import TRANSFER
from commonbrain.web.screens.work import THREAD, WORK

SCREENS: Final[tuple[Screen, ...]] = (
    HOME,
    SEARCH,
    BROWSE,
    FACETS,
    REVIEW_SCREEN,
    WORK,
    BOOT_SCREEN,
    MEMORY,
    GRAPH,
    THREAD,
    TRANSFER,
    HEALTH,
    *ADMIN_SCREENS,
)
"""Those of the core, in the order of the menu."""


def all_screens() -> tuple[Screen, ...]:
    """Return the screens of the core, then those of installed packages."""
    return (*SCREENS, *(screen for part in page_parts() for screen in part.screens))


__all__ = ["SCREENS", "Screen", "all_screens"]
