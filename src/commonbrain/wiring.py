"""Builds the house from settings; nobody else knows the adapters."""

import getpass
import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar, Unpack

from pydantic import SecretStr, ValidationError
from pydantic_settings import BaseSettings

from commonbrain.adapters.access import making
from commonbrain.adapters.access.issuer import Issuer
from commonbrain.adapters.access.local import LocalAccess
from commonbrain.adapters.access.refusals import CountedRefusals
from commonbrain.adapters.archive.lines import JsonLines
from commonbrain.adapters.models import EMBEDDERS, EXTRACTORS, Options, settings_of
from commonbrain.adapters.models.repeating import Repeating
from commonbrain.adapters.processes import LocalProcesses
from commonbrain.adapters.queue.local import LocalQueue
from commonbrain.adapters.screen import PatternScreen
from commonbrain.adapters.sql.opening import open_sqlite
from commonbrain.adapters.sql.sqlite_restore import plan_restore, put_in_place
from commonbrain.adapters.sql.store import SqlStore
from commonbrain.adapters.system import SystemChance, SystemClock
from commonbrain.adapters.telemetry.early import EarlyFile
from commonbrain.adapters.telemetry.making import Wanted, make_telemetry
from commonbrain.adapters.telemetry.probing import Doors
from commonbrain.brain import Brain, Identity
from commonbrain.domain import ids
from commonbrain.domain.errors import CommonbrainError, Corrupt, Invalid
from commonbrain.domain.locations import is_url
from commonbrain.domain.scope import LOCAL_TENANT, Caller
from commonbrain.domain.screening import OnSecret
from commonbrain.domain.space import Space
from commonbrain.domain.tool_event import ToolEvent
from commonbrain.flows.bounds import Bounds
from commonbrain.flows.house import House
from commonbrain.flows.journal import Journal, Ledger
from commonbrain.importers import IMPORTERS
from commonbrain.ports.access import Access
from commonbrain.ports.clock import Chance, Clock
from commonbrain.ports.keeping import Progress, Replacement, Restored, Upgraded, unwatched
from commonbrain.ports.models import Embedder, Extractor
from commonbrain.ports.queue import Queue
from commonbrain.ports.store import SpaceMismatch
from commonbrain.ports.telemetry import Telemetry
from commonbrain.settings import ServerSettings, Settings, Store

_SettingsT = TypeVar("_SettingsT", bound=BaseSettings)
_HIDDEN = frozenset(
    {
        "embedder_api_key",
        "embedder_url",
        "extractor_api_key",
        "extractor_url",
        "redis_url",
        "store",
    }
)
"""Settings that may hold a secret: errors do not repeat what they were given."""

_ENDPOINTS = {"ollama": "http://127.0.0.1:11434", "openai": "https://api.openai.com/v1"}
"""Where embedders are that run elsewhere, unless settings say."""
_COUNTED = frozenset({"serve", "work"})
"""Servers that Prometheus asks; the others serve one client."""


def open_brain(
    store: str | Path | None = None,
    *,
    tenant: str | None = None,
    lock_wait_s: float | None = None,
    serves: str | None = None,
    **identity: Unpack[Identity],
) -> Brain:
    """Open a store by path, by the environment, or where the user's data lives.

    Args:
        store: the file, or the URL of a Postgres.
        tenant: whose memories; by default those that the settings name.
        lock_wait_s: how long to wait for other writers, where that is less than the settings say.
        serves: the name of the server that this is for, which is listened to as settings say.
        identity: who acts.

    Raises:
        Invalid: a setting or an environment variable is out of bounds.
        NotFound: there is no such tenant.
        Unavailable: the store cannot be opened or stayed locked; it was left as found.
        Corrupt: the store is damaged, foreign or newer; it was left as found.

    """
    settings = load_settings()
    if lock_wait_s is not None:
        settings = settings.model_copy(
            update={"lock_wait_s": min(lock_wait_s, settings.lock_wait_s)}
        )
    house = build_house(settings, _named(store, settings))
    if serves is not None:
        house = replace(house, telemetry=listen(settings, serves, space=house.store.space))
    caller = Caller(
        tenant=tenant or settings.tenant,
        agent=settings.agent or _login_name(),
        session=settings.session,
        project=settings.project,
    )
    brain = Brain.of(house, caller).acting_as(**identity)
    if caller.tenant != LOCAL_TENANT:
        # The first is made with the store; of the others each must have been made by name.
        with ExitStack() as unless_known:
            unless_known.callback(brain.close)
            brain.tenants.get(caller.tenant)
            unless_known.pop_all()
    return brain


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


def _places(settings: Settings, at: Store) -> dict[str, str | Path]:
    """Say where each thing is that the house depends on; what runs in this process is there."""
    store = at.expanduser() if isinstance(at, Path) else at.get_secret_value()
    places: dict[str, str | Path] = {"store": store}
    if settings.redis_url is not None:
        places["redis"] = settings.redis_url.get_secret_value()
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


def upgrade_store(store: str | Path | None = None, *, role: str | None = None) -> Upgraded:
    """Bring a store in Postgres to this version's schema, and let a role use it.

    Args:
        store: its URL as its owner; by default as for `open`.
        role: who may open it from now on.

    Raises:
        Invalid: the store is a file, which is upgraded when it is opened.
        Unavailable: it cannot be reached, or others held what is needed for too long.
        Corrupt: it is not a store, or of a newer version; it was left as found.

    """
    settings = load_settings()
    named = _named(store, settings)
    if isinstance(named, Path):
        raise Invalid(
            "A store in a file is upgraded when it is opened.",
            hint="For a store in Postgres give its URL with --store or COMMONBRAIN_STORE.",
        )
    _need_server()
    from commonbrain.adapters.sql.postgres_opening import upgrade_postgres  # noqa: PLC0415

    return upgrade_postgres(
        named.get_secret_value(),
        space=make_embedder(settings).space,
        clock=SystemClock(),
        lock_wait_s=settings.lock_wait_s,
        role=role,
    )


def _named(store: str | Path | None, settings: Settings) -> Store:
    """Give what an argument names, or else the settings."""
    if not store:
        return settings.store
    return SecretStr(str(store)) if is_url(store) else Path(store)


def _store_path(store: str | Path | None) -> Path:
    named = _named(store, load_settings())
    if isinstance(named, Path):
        return named.expanduser()
    raise Invalid(
        "A store in Postgres is not restored from a file of Commonbrain.",
        code="restore_unsupported",
        hint="Restore it with pg_restore, from what pg_dump or your server's own backups wrote.",
    )


def _need_server() -> None:
    """Make sure that the extra is there, which a store in a file does without.

    Raises:
        Invalid: it is not installed.

    """
    if find_spec("psycopg") is None or find_spec("pgvector") is None:
        raise Invalid(
            "A store in Postgres needs psycopg and pgvector, which are not installed.",
            code="extra_missing",
            hint="Install them with: pip install 'commonbrain[server]'",
        )


def load_settings() -> Settings:
    """Read the settings from the environment, and secrets from the files of a folder it names.

    A file there has the name of the variable in whose place it stands: that is how containers are
    handed secrets. A variable beats it.

    Raises:
        Invalid: one of them is out of bounds, or there is no such folder.

    """
    return _loaded(Settings)


def load_server_settings(**given: Any) -> ServerSettings:  # noqa: ANN401 settings of any type
    """Read how to serve from the environment, but for what is given.

    Raises:
        Invalid: something is out of bounds.

    """
    return _loaded(ServerSettings, **given)


def _loaded(model: type[_SettingsT], **given: Any) -> _SettingsT:  # noqa: ANN401 the same
    folder = os.environ.get("COMMONBRAIN_SECRETS_DIR") or None
    if folder is not None and not Path(folder).is_dir():
        raise Invalid(
            "COMMONBRAIN_SECRETS_DIR is no folder.", hint="Name one that holds files, or unset it."
        )
    try:
        return model(_secrets_dir=folder, **given)
    except ValidationError as error:
        first = error.errors()[0]
        name = "_".join(str(part) for part in first["loc"])
        prefix = model.model_config.get("env_prefix", "")
        is_hidden = name in _HIDDEN
        shown = "not valid" if is_hidden else repr(str(first["input"])[:80])
        raise Invalid(
            f"{prefix}{name.upper()} is {shown}: {first['msg']}.",
            hint="Mend or unset it.",
        ) from (None if is_hidden else error)


def build_house(
    settings: Settings, at: Store, *, clock: Clock | None = None, chance: Chance | None = None
) -> House:
    """Put ports and adapters together for one store; time and chance are the machine's own."""
    embedder = Repeating(make_embedder(settings))
    clock = clock or SystemClock()
    with _telling_of_settings():
        store = _open(at, settings, space=_calibrated(embedder.space, settings), clock=clock)
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
        queue=make_queue(settings),
        works_aside=settings.redis_url is None,
        screen=screen,
        bounds=Bounds(
            store=store,
            clock=clock,
            rates=cache(partial(making.make_rates, _told(settings.redis_url))),
            key_calls_per_minute=settings.key_calls_per_minute,
            tenant_calls_per_minute=settings.tenant_calls_per_minute,
        ),
        refusals=CountedRefusals(store=store, clock=clock),
        seals=cache(making.make_seals),
        early=_early(settings, clock),
        probe=Doors(_places(settings, at), clock),
        started_at=clock.now(),
        on_secret=OnSecret(settings.secrets),
    )


def _open(at: Store, settings: Settings, *, space: Space, clock: Clock) -> SqlStore:
    if isinstance(at, Path):
        return open_sqlite(
            at.expanduser(),
            space=space,
            clock=clock,
            is_durable=settings.durability == "full",
            lock_wait_s=settings.lock_wait_s,
        )
    _need_server()
    # The driver is a part of the extra, and what takes long to load.
    from commonbrain.adapters.sql.postgres_opening import open_postgres  # noqa: PLC0415

    return open_postgres(
        at.get_secret_value(), space=space, clock=clock, lock_wait_s=settings.lock_wait_s
    )


def make_access(brain: Brain, settings: Settings | None = None, *, is_open: bool = False) -> Access:
    """Make what tells the callers of networked doors by their credentials.

    Args:
        brain: what shows the house.
        settings: which tokens are taken; by default as the environment says.
        is_open: take whoever reaches the loopback for the user.

    Raises:
        Invalid: the extra `server` is not installed, or only half of an issuer is told.

    """
    if is_open:
        return LocalAccess(brain.caller)
    house = brain.house
    ground = making.Ground(
        store=house.store,
        clock=house.clock,
        refusals=house.refusals,
        rates=house.bounds.rates(),
        seals=house.seals(),
    )
    return making.make_access(ground, _issuer(settings or load_settings()))


def _issuer(settings: Settings) -> Issuer | None:
    told = {
        "COMMONBRAIN_JWT_ISSUER": settings.jwt_issuer,
        "COMMONBRAIN_JWT_AUDIENCE": settings.jwt_audience,
        "COMMONBRAIN_JWT_JWKS_URL": settings.jwt_jwks_url,
    }
    name, audience, keys_url = told.values()
    if name is None or audience is None or keys_url is None:
        if not any(told.values()):
            return None
        missing = ", ".join(setting for setting, value in told.items() if not value)
        raise Invalid(f"Tokens are taken only with {missing} too.", hint="Set all three, or none.")
    return Issuer(
        name=name,
        audience=audience,
        keys_url=keys_url,
        algorithms=tuple(one.strip() for one in settings.jwt_algorithms.split(",")),
        tenant_claim=settings.jwt_tenant_claim,
        agent_claim=settings.jwt_agent_claim,
        role_claim=settings.jwt_role_claim,
        leeway_s=settings.jwt_leeway_s,
        timeout_s=settings.jwt_timeout_s,
    )


def _told(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None


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


def make_queue(settings: Settings) -> Queue:
    """Make the queue that settings name; nothing is connected to yet.

    Raises:
        Invalid: it is no URL of a Redis, or what speaks to one is not installed.

    """
    if settings.redis_url is None:
        return LocalQueue()
    try:
        # What speaks to a Redis comes with the extra, and only a shared server has one.
        from commonbrain.adapters.queue.shared import SharedQueue  # noqa: PLC0415
    except ImportError as error:
        raise Invalid(
            f"COMMONBRAIN_REDIS_URL needs {error.name}, which is not installed.",
            code="extra_missing",
            hint="Install it with: pip install 'commonbrain[server]'",
        ) from error
    return SharedQueue(settings.redis_url.get_secret_value())


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
