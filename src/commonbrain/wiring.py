"""Builds the house from settings; nobody else knows the adapters."""

import getpass
from pathlib import Path
from typing import Unpack

from pydantic import ValidationError

from commonbrain.adapters.models import EMBEDDERS
from commonbrain.adapters.screen import PatternScreen
from commonbrain.adapters.sql.opening import open_sqlite
from commonbrain.adapters.system import SystemChance, SystemClock
from commonbrain.brain import Brain, Identity
from commonbrain.domain.errors import Invalid
from commonbrain.domain.scope import Caller
from commonbrain.domain.screening import OnSecret
from commonbrain.flows.house import House
from commonbrain.flows.journal import Journal
from commonbrain.importers import IMPORTERS
from commonbrain.ports.models import Embedder
from commonbrain.settings import Settings


def open_brain(store: str | Path | None = None, **identity: Unpack[Identity]) -> Brain:
    """Open a store by path, by the environment, or where the user's data lives.

    Raises:
        Invalid: a setting or an environment variable is out of bounds.
        Unavailable: the store cannot be opened or stayed locked; it was left as found.
        Corrupt: the store is damaged, foreign or newer; it was left as found.

    """
    settings = load_settings()
    house = build_house(settings, Path(store) if store else settings.store)
    caller = Caller(
        agent=settings.agent or _login_name(),
        session=settings.session,
        project=settings.project,
    )
    return Brain.of(house, caller).acting_as(**identity)


def load_settings() -> Settings:
    """Read the settings from the environment.

    Raises:
        Invalid: one of them is out of bounds.

    """
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = "_".join(str(part) for part in first["loc"]).upper()
        raise Invalid(
            f"COMMONBRAIN_{name} is {str(first['input'])[:80]!r}: {first['msg']}.",
            hint="Mend or unset it.",
        ) from error


def build_embedder(settings: Settings) -> Embedder:
    """Choose the embedder that the settings name; its model is loaded on first use.

    Raises:
        Invalid: there is none of that name.

    """
    make_embedder = EMBEDDERS.get(settings.embedder)
    if make_embedder is None:
        raise Invalid(
            f"There is no embedder {settings.embedder[:40]!r}.",
            hint=f"COMMONBRAIN_EMBEDDER may be {', '.join(EMBEDDERS)}.",
        )
    return make_embedder(threads=settings.embedder_threads)


def build_house(settings: Settings, path: Path) -> House:
    """Put ports and adapters together for one file."""
    embedder = build_embedder(settings)
    clock = SystemClock()
    store = open_sqlite(
        path.expanduser(),
        space=embedder.space,
        clock=clock,
        is_durable=settings.durability == "full",
        lock_wait_s=settings.lock_wait_s,
    )
    screen = PatternScreen()
    return House(
        store=store,
        embedder=embedder,
        clock=clock,
        chance=SystemChance(),
        journal=Journal(store, screen),
        importers=IMPORTERS,
        screen=screen,
        on_secret=OnSecret(settings.secrets),
    )


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container may run under a number that no name belongs to.
        return "user"
