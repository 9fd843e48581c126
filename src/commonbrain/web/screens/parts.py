"""What packages add to the page: screens, forms and cards of the health screen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

from jinja2 import Environment

from commonbrain.client import Brain
from commonbrain.extras import load_rows
from commonbrain.web.rendering import make_environment
from commonbrain.web.screens.screen import Screen
from commonbrain.web.visit import Visit


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
