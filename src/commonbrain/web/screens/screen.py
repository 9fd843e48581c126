"""The type of a screen."""

from collections.abc import Callable
from dataclasses import dataclass

from commonbrain.model.scope import Role
from commonbrain.web.visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """One screen of the page."""

    name: str
    path: str
    """Its address, with variable parts in braces."""
    title: str
    load: Callable[[Visit], object]
    """Makes the view that its template shows."""
    key: str | None = None
    """The key that opens it after `g`; None if it is not in the menu."""
    role: Role = Role.READER
    """The role without which the menu leaves it out, and it is refused."""
    part_of: str | None = None
    """The name of the screen of the menu that it belongs to."""
    is_for_owner: bool = False
    """Whether it is for the owner of the store, on its machine."""

    @property
    def template(self) -> str:
        """The file of its template."""
        return f"{self.name}.html"


def admin_screen(
    title: str, load: Callable[[Visit], object], *, is_for_owner: bool = False
) -> Screen:
    """Make a screen under `/admin`."""
    name = title.lower()
    return Screen(
        name=f"admin_{name}",
        path=f"/admin/{name}",
        title=title,
        load=load,
        role=Role.ADMIN,
        part_of="admin",
        is_for_owner=is_for_owner,
    )
