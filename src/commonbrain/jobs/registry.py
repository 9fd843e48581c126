"""Every kind of job once: who does it, who may ask for it, and how long and often it is tried."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from commonbrain.consolidation import artifacts, reflection_job
from commonbrain.consolidation.maintenance import maintain
from commonbrain.consolidation.near_duplicates import consolidate
from commonbrain.jobs import handlers
from commonbrain.jobs.handlers import evaluate
from commonbrain.jobs.reranker_training import train_reranker
from commonbrain.jobs.salience_training import train_salience
from commonbrain.learning.usefulness import SETTLED_AFTER
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import (
    EVALUATED_FROM,
    JOB_ATTEMPTS,
    JOB_GIVEN_BYTES_MAX,
    LESSONS_ASKED_MIN,
    LESSONS_MAX,
    LOOKBACK_DAYS_MAX,
    LOOKBACK_DAYS_MIN,
    REFLECT_CANDIDATES_MAX,
    REFLECT_HOURS_MAX,
)
from commonbrain.model.scope import Caller, Role
from commonbrain.storage.job_queue import DISCARD, EMBED, EXPORT, MAINTAIN, REFLECT, JobContext

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

Validator = Callable[[object], bool]
"""Says whether a value may be given."""


def _is_name(value: object) -> bool:
    return isinstance(value, str)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _are_names(value: object) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_name, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _is_within(low: int, high: int) -> Validator:
    """Say of a value whether it is a whole number within bounds."""
    return lambda value: type(value) is int and low <= value <= high


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """What is known of all jobs of one kind."""

    purpose: str
    handle: Callable[[JobContext], None]
    """Does it; may be done again from any point on, and ends by `Task.finish`."""
    parameters: Mapping[str, Validator]
    """What it can be given, by name."""
    role: Role
    """Who may ask for it."""
    asked_by: str | None = None
    """What brings the file that it reads, and alone can ask for it."""
    is_store_wide: bool = False
    """Whether it works on what all tenants share, which is no single one's to ask for."""
    is_of_space: bool = False
    """Whether it is for programs alone that make, or compare, vectors of the space that serves."""
    limit: timedelta = timedelta(hours=1)
    """How long one attempt may take."""
    attempts: int = JOB_ATTEMPTS
    backoff: timedelta = timedelta(seconds=30)
    """How long after its first failure it is tried again."""
    every: timedelta | None = None
    """How often it asks for itself."""
    has_work: Callable[[Transaction], bool] = lambda _: True
    """Says whether there is anything to do, before it asks for itself."""
    is_due_early: Callable[[Transaction, Caller], bool] = lambda _tx, _caller: False
    """Says whether it asks for itself before its time."""
    is_personal: bool = False
    """Whether it does something else for each agent that asks for it."""


JOBS: Final[Mapping[str, JobKind]] = {
    EMBED: JobKind(
        purpose="Give vectors to what was stored while the embedder was down.",
        handle=handlers.embed,
        parameters={},
        role=Role.WRITER,
        is_of_space=True,
        every=timedelta(hours=1),
        has_work=lambda tx: tx.index.pending() > 0,
    ),
    "atomize": JobKind(
        purpose="Find in stored memories what caused what.",
        handle=handlers.atomize,
        parameters={"kinds": _are_names, "project": _is_name},
        role=Role.WRITER,
        is_personal=True,
    ),
    "train_salience": JobKind(
        purpose="Learn from what memories came to how much new ones matter.",
        handle=train_salience,
        parameters={"lookback_days": _is_within(SETTLED_AFTER.days + 1, LOOKBACK_DAYS_MAX)},
        role=Role.ADMIN,
    ),
    "train_reranker": JobKind(
        purpose="Learn from marked recalls what order is better, and hold it against what serves.",
        handle=train_reranker,
        parameters={
            "lookback_days": _is_within(LOOKBACK_DAYS_MIN, LOOKBACK_DAYS_MAX),
            "min_marked": _is_within(LESSONS_ASKED_MIN, LESSONS_MAX),
        },
        role=Role.ADMIN,
    ),
    REFLECT: JobKind(
        purpose="Make episodes of what happened, and propose what it states.",
        handle=reflection_job.reflect,
        parameters={
            "window_hours": _is_within(1, REFLECT_HOURS_MAX),
            "max_candidates": _is_within(1, REFLECT_CANDIDATES_MAX),
            "project": _is_name,
        },
        role=Role.WRITER,
        every=timedelta(days=1),
        has_work=reflection_job.has_work,
        is_due_early=reflection_job.is_due_early,
        is_personal=True,
    ),
    "reword": JobKind(
        purpose="Write the full text anew from the rows.",
        handle=handlers.rebuild_text_index,
        parameters={},
        role=Role.ADMIN,
        is_store_wide=True,
    ),
    "eval": JobKind(
        purpose="Measure recall on questions that the store's own memories give.",
        handle=evaluate,
        parameters={"questions": _is_count, "seed": _is_count},
        role=Role.WRITER,
        every=timedelta(days=7),
        has_work=lambda tx: sum(tx.memories.counts().values()) >= EVALUATED_FROM,
        is_personal=True,
    ),
    "import": JobKind(
        purpose="Take in what was sent, in a foreign format or the house's own.",
        handle=handlers.import_,
        parameters={},
        role=Role.WRITER,
        asked_by="brain import --background, or POST /v1/import",
        limit=timedelta(hours=12),
    ),
    EXPORT: JobKind(
        purpose="Write everything into an archive, to be fetched for a day.",
        handle=handlers.export,
        parameters={},
        role=Role.ADMIN,
        limit=timedelta(hours=6),
    ),
    DISCARD: JobKind(
        purpose="Drop what was sent to be imported, exported or learnt, once its time is over.",
        handle=artifacts.purge_upload,
        parameters={},
        role=Role.WRITER,
        asked_by="what puts a file there",
    ),
    "respace": JobKind(
        purpose="Give every memory vectors of the embedder that the store is to be moved to.",
        handle=handlers.reembed,
        parameters={"space": _is_name},
        role=Role.ADMIN,
        is_store_wide=True,
        limit=timedelta(days=1),
    ),
    "consolidate": JobKind(
        purpose="Report rules and facts that say nearly the same, or are corrected ever again.",
        handle=consolidate,
        parameters={"project": _is_name},
        role=Role.WRITER,
        is_of_space=True,
        is_personal=True,
    ),
    MAINTAIN: JobKind(
        purpose="Keep the store: what expired or is too old, stale tasks, old jobs and events.",
        handle=maintain,
        parameters={"dry_run": _is_flag},
        role=Role.ADMIN,
        every=timedelta(days=1),
    ),
}


def kind_of(name: str) -> JobKind:
    """Find a kind by its name.

    Raises:
        InvalidInputError: there is none.

    """
    known = JOBS.get(name)
    if known is None:
        raise InvalidInputError(
            f"There is no job {name[:40]!r}.", hint=f"There is {', '.join(JOBS)}."
        )
    return known


def check_arguments(name: str, given: Mapping[str, object]) -> None:
    """Hold what a job is given to what its kind takes.

    Raises:
        InvalidInputError: a name is unknown, its value is of another sort, or all are too long
            together.

    """
    size = len(json.dumps(dict(given), ensure_ascii=False, default=str).encode())
    if size > JOB_GIVEN_BYTES_MAX:
        raise InvalidInputError(
            f"{name} is given {size:,} bytes; {JOB_GIVEN_BYTES_MAX:,} are allowed.",
            code="limit_exceeded",
            hint="Ask for less at once.",
        )
    parameters = kind_of(name).parameters
    hint = f"It takes {', '.join(parameters) or 'nothing'}."
    for one, value in given.items():
        if one not in parameters:
            raise InvalidInputError(f"{name} takes no {one[:40]!r}.", hint=hint)
        if not parameters[one](value):
            raise InvalidInputError(f"{name} cannot take {str(value)[:40]!r} as {one}.", hint=hint)


def parse_arguments(name: str, given: Mapping[str, object]) -> dict[str, object]:
    """Read what somebody typed as what the kind takes: a text, what it is in JSON, a list of it.

    Raises:
        InvalidInputError: there is no such kind.

    """
    parameters = kind_of(name).parameters
    return {one: _as_taken(value, parameters.get(one)) for one, value in given.items()}


def _as_taken(value: object, fits: Validator | None) -> object:
    """Give the first reading that fits; what never does is given back, to be refused as it is."""
    readings = (value, *_read(value), [value])
    return value if fits is None else next(filter(fits, readings), value)


def _read(value: object) -> tuple[object, ...]:
    try:
        return (json.loads(value),) if isinstance(value, str) else ()
    except ValueError:
        return ()
