"""A screen of the page, and what packages add to the page: screens, forms and cards."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

from jinja2 import Environment

from commonbrain.client import Brain
from commonbrain.extras import load_rows
from commonbrain.model.scope import Role
from commonbrain.web.rendering import make_environment
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


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSecret:
    """A new key, shown in one response: it is in no cookie, log or address."""

    text: str = field(repr=False)
    prefix: str
    """The part by which the key is listed and revoked."""
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePart:
    """What a package adds for one of its operations: a row of `commonbrain.page`."""

    operation: str
    """The operation that forms of the page may run."""
    package: str
    """The package whose folder `templates` has those of its screens."""
    screens: tuple[Screen, ...]
    undo_fields: Callable[[Brain, Any], Mapping[str, str] | None]
    """Makes the fields that restore what a request would change; None if nothing can."""
    new_secret: Callable[[Any], NewSecret | None] = lambda _reply: None
    """Returns what is shown in place of a reply that contains a new key."""
    cards: Mapping[str, Callable[[Visit], object]] = field(
        default_factory=dict[str, Callable[[Visit], object]]
    )
    """Make what an admin sees of it on `health` and `admin`, by the name of the screen."""


@cache
def page_parts() -> tuple[PagePart, ...]:
    """Load the parts of installed packages."""
    return tuple(cast("Mapping[str, PagePart]", load_rows("page")).values())


def find_part(operation: str) -> PagePart | None:
    """Return the part of an operation; None if the core itself shows it, or its package is gone."""
    return next((part for part in page_parts() if part.operation == operation), None)


def load_cards(visit: Visit, screen: str) -> Mapping[str, object]:
    """Return the cards of all parts on a screen, by their templates."""
    return {
        f"{part.operation}_{screen}_card.html": part.cards[screen](visit)
        for part in page_parts()
        if screen in part.cards
    }


def page_environment(*packages: str) -> Environment:
    """Return the environment of the templates of the core, of all parts and of more packages."""
    return make_environment(
        tuple(dict.fromkeys((*(part.package for part in page_parts()), *packages)))
    )
