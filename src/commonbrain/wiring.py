"""Builds the house from settings; nobody else knows the adapters."""

import getpass
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any, Unpack

from pydantic import ValidationError

from commonbrain.adapters.archive.lines import JsonLines
from commonbrain.adapters.models import EMBEDDERS, EXTRACTORS, Options, settings_of
from commonbrain.adapters.models.repeating import Repeating
from commonbrain.adapters.processes import LocalProcesses
from commonbrain.adapters.screen import PatternScreen
from commonbrain.adapters.sql.opening import open_sqlite
from commonbrain.adapters.sql.sqlite_restore import plan_restore, put_in_place
from commonbrain.adapters.system import SystemChance, SystemClock
from commonbrain.adapters.telemetry.early import EarlyFile
from commonbrain.adapters.telemetry.making import Wanted, make_telemetry
from commonbrain.adapters.telemetry.probing import Doors
from commonbrain.brain import Brain, Identity
from commonbrain.domain import ids
from commonbrain.domain.errors import CommonbrainError, Corrupt, Invalid
from commonbrain.domain.scope import LOCAL_TENANT, Caller
from commonbrain.domain.screening import OnSecret
from commonbrain.domain.space import Space
from commonbrain.domain.tool_event import ToolEvent
from commonbrain.flows.house import House
from commonbrain.flows.journal import Journal, Ledger
from commonbrain.importers import IMPORTERS
from commonbrain.ports.clock import Chance, Clock
from commonbrain.ports.keeping import Progress, Replacement, Restored, unwatched
from commonbrain.ports.models import Embedder, Extractor
from commonbrain.ports.store import SpaceMismatch
from commonbrain.ports.telemetry import Telemetry
from commonbrain.settings import Settings

_HIDDEN = frozenset({"embedder_api_key", "embedder_url", "extractor_api_key", "extractor_url"})
"""Settings that may hold a secret: errors do not repeat what they were given."""

_ENDPOINTS = {"ollama": "http://127.0.0.1:11434", "openai": "https://api.openai.com/v1"}
"""Where embedders are that run elsewhere, unless settings say."""
_SECRETS = "COMMONBRAIN_SECRETS_DIR"
_COUNTED = frozenset({"serve", "work"})
"""Servers that Prometheus asks; the others serve one client."""


def open_brain(
    store: str | Path | None = None,
    *,
    lock_wait_s: float | None = None,
    serves: str | None = None,
    **identity: Unpack[Identity],
) -> Brain:
    """Open a store by path, by the environment, or where the user's data lives.

    Args:
        store: the file.
        lock_wait_s: how long to wait for other writers, where that is less than the settings say.
        serves: the name of the server that this is for, which is listened to as settings say.
        identity: who acts.

    Raises:
        Invalid: a setting or an environment variable is out of bounds.
        Unavailable: the store cannot be opened or stayed locked; it was left as found.
        Corrupt: the store is damaged, foreign or newer; it was left as found.

    """
    settings = load_settings()
    if lock_wait_s is not None:
        settings = settings.model_copy(
            update={"lock_wait_s": min(lock_wait_s, settings.lock_wait_s)}
        )
    house = build_house(settings, Path(store) if store else settings.store)
    if serves is not None:
        house = replace(house, telemetry=listen(settings, serves, space=house.store.space))
    caller = Caller(
        agent=settings.agent or _login_name(),
        session=settings.session,
        project=settings.project,
    )
    return Brain.of(house, caller).acting_as(**identity)


def note_unopened(
    tool: str, error: CommonbrainError, *, agent: str | None, door: str, args: str
) -> None:
    """Let the event of a call wait for which no store could be opened; nothing fails for it."""
    try:
        settings = load_settings()
    except Invalid:
        # Nobody knows the folder, and the caller is told of the setting that is wrong.
        return
    clock = SystemClock()
    event = ToolEvent(
        id=ids.make_id(clock.now(), SystemChance().bits(ids.RANDOM_BITS)),
        tenant=LOCAL_TENANT,
        at=clock.now(),
        session=None,
        agent=agent or settings.agent or _login_name(),
        tool=tool,
        door=door,
        duration_ms=0.0,
        outcome=error.code,
        args=args,
    )
    if settings.event_days:
        _early(settings, clock).keep(event)


def _early(settings: Settings, clock: Clock) -> EarlyFile:
    return EarlyFile(settings.state.expanduser() / "early.jsonl", clock)


def listen(settings: Settings, name: str, *, space: Space) -> Telemetry:
    """Make what listens to a server: `serve` and `work` are counted for Prometheus, all logged.

    Raises:
        Invalid: a library that the settings want is not installed.

    """
    wanted = Wanted(
        log=settings.state.expanduser() / "log" if settings.log else None,
        otlp_endpoint=settings.otlp_endpoint,
        counts=name in _COUNTED,
        notices=settings.notices,
        host=settings.metrics_host,
        port=settings.metrics_port,
    )
    about = {"version": version("commonbrain"), "space": space.name}
    return make_telemetry(name, wanted, clock=SystemClock(), about=about)


def _places(settings: Settings, store: Path) -> dict[str, str | Path]:
    """Say where each thing is that the house depends on; what runs in this process is there."""
    places: dict[str, str | Path] = {"store": store.expanduser()}
    url = settings.embedder_url or _ENDPOINTS.get(settings.embedder)
    if settings.embedder in _ENDPOINTS and url:
        places["embedder"] = url
    return places


def preview_restore(file: str | Path, store: str | Path | None = None) -> Replacement:
    """Say what a restore would put in the place of what, and change nothing.

    Raises:
        Invalid: the file is not there, or is the store itself.
        Unavailable: one of the two cannot be read.
        Corrupt: the file is damaged, not a store, or of a newer version.

    """
    return plan_restore(Path(file).expanduser(), _store_path(store))


def restore(
    file: str | Path,
    store: str | Path | None = None,
    *,
    digest: str | None = None,
    on_progress: Progress = unwatched,
) -> Restored:
    """Put a backup in the place of a store that nobody has open; the old one is kept beside it.

    Args:
        file: the backup.
        store: what to replace; by default as for `open`.
        digest: the SHA-256 that the backup must have.
        on_progress: told how far it has come, 0..1.

    Raises:
        Invalid: the file is not there, is the store itself, or has another digest.
        Unavailable: `store_in_use`, or the folder cannot be written; the store is as it was.
        Corrupt: the file is damaged, not a store, or of a newer version; the store is as it was.

    """
    return put_in_place(
        Path(file).expanduser(),
        _store_path(store),
        digest=digest,
        clock=SystemClock(),
        on_progress=on_progress,
    )


def _store_path(store: str | Path | None) -> Path:
    return (Path(store) if store else load_settings().store).expanduser()


def load_settings() -> Settings:
    """Read the settings from the environment, else from a folder of secrets that it names.

    A container's secrets are files there, named as the variables are: `commonbrain_store`.

    Raises:
        Invalid: one of them is out of bounds.

    """
    try:
        folder: dict[str, Any] = {"_secrets_dir": os.environ.get(_SECRETS)}
        return Settings(**folder)
    except ValidationError as error:
        first = error.errors()[0]
        name = "_".join(str(part) for part in first["loc"])
        is_hidden = name in _HIDDEN
        given = "not valid" if is_hidden else repr(str(first["input"])[:80])
        raise Invalid(
            f"COMMONBRAIN_{name.upper()} is {given}: {first['msg']}.",
            hint="Mend or unset it.",
        ) from (None if is_hidden else error)


def build_house(
    settings: Settings, path: Path, *, clock: Clock | None = None, chance: Chance | None = None
) -> House:
    """Put ports and adapters together for one file; time and chance are the machine's own."""
    embedder = Repeating(make_embedder(settings))
    clock = clock or SystemClock()
    with _telling_of_settings():
        store = open_sqlite(
            path.expanduser(),
            space=_calibrated(embedder.space, settings),
            clock=clock,
            is_durable=settings.durability == "full",
            lock_wait_s=settings.lock_wait_s,
        )
    screen = PatternScreen()
    return House(
        store=store,
        embedder=embedder,
        extractor=make_extractor(settings),
        clock=clock,
        chance=chance or SystemChance(),
        journal=Journal(
            store,
            screen,
            clock=clock,
            ledger=Ledger(
                share=settings.trace_share,
                kept=timedelta(days=settings.trace_days),
                events_kept=timedelta(days=settings.event_days),
            ),
        ),
        importers=IMPORTERS,
        archive=JsonLines(),
        processes=LocalProcesses(),
        screen=screen,
        early=_early(settings, clock),
        probe=Doors(_places(settings, path), clock),
        started_at=clock.now(),
        on_secret=OnSecret(settings.secrets),
    )


def make_embedder(settings: Settings) -> Embedder:
    """Make the embedder that settings name; nothing is loaded or sent yet.

    Raises:
        Invalid: there is no such embedder, or what it needs to know is missing or wrong.

    """
    make = EMBEDDERS.get(settings.embedder)
    if make is None:
        raise Invalid(
            f"There is no embedder {settings.embedder[:40]!r}.",
            hint=f"COMMONBRAIN_EMBEDDER may be {', '.join(EMBEDDERS)}.",
        )
    options = Options(
        threads=settings.embedder_threads,
        model=settings.embedder_model,
        url=settings.embedder_url,
        key=settings.embedder_api_key,
        dimensions=settings.embedder_dimensions,
        timeout_s=settings.embedder_timeout_s,
        retries=settings.embedder_retries,
    )
    return make(options)


def make_extractor(settings: Settings) -> Extractor:
    """Make the extractor that settings name; nothing is sent yet.

    Raises:
        Invalid: there is no such extractor, or what it needs to know is missing or wrong.

    """
    make = EXTRACTORS.get(settings.extractor)
    if make is None:
        raise Invalid(
            f"There is no extractor {settings.extractor[:40]!r}.",
            hint=f"COMMONBRAIN_EXTRACTOR may be {', '.join(EXTRACTORS)}.",
        )
    options = Options(
        model=settings.extractor_model,
        url=settings.extractor_url,
        key=settings.extractor_api_key,
        timeout_s=settings.extractor_timeout_s,
        retries=settings.extractor_retries,
        tokens_max=settings.extractor_tokens_max,
    )
    return make(options)


def _calibrated(space: Space, settings: Settings) -> Space:
    """Give a space the thresholds that settings know better."""
    names = ("duplicate_at", "similar_at", "relevant_at", "answers_at")
    told = {name: getattr(settings, name) for name in names}
    calibrated = replace(space, **{name: at for name, at in told.items() if at is not None})
    if not calibrated.relevant_at < calibrated.similar_at <= calibrated.duplicate_at:
        raise Invalid(
            f"The thresholds are relevant {calibrated.relevant_at}, similar "
            f"{calibrated.similar_at}, duplicate {calibrated.duplicate_at}; each must be above "
            "the one before.",
            hint="Mend COMMONBRAIN_RELEVANT_AT, COMMONBRAIN_SIMILAR_AT, COMMONBRAIN_DUPLICATE_AT.",
        )
    return calibrated


@contextmanager
def _telling_of_settings() -> Generator[None]:
    """Say which settings open a store whose vectors another embedder made."""
    try:
        yield
    except SpaceMismatch as error:
        known = settings_of(error.known)
        raise Corrupt(
            error.message,
            code=error.code,
            hint=f"Open it with {known}, or make a new store and import into it."
            if known
            else error.hint,
        ) from error


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container may run under a number that no name belongs to.
        return "user"
