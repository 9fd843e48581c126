"""The kinds of jobs: handler, required role, parameters, time limit and schedule."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final, cast

from commonbrain.extras import is_installed, load_row
from commonbrain.model import limits
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.scope import Caller, Role
from commonbrain.storage.job_queue import DISCARD, EMBED, EXPORT, MAINTAIN, REFLECT, JobContext

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

Validator = Callable[[object], bool]
"""Whether a value is valid."""


def _is_name(value: object) -> bool:
    return isinstance(value, str)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _are_names(value: object) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_name, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _is_within(low: int, high: int) -> Validator:
    """Return a validator of integers within bounds."""
    return lambda value: type(value) is int and low <= value <= high


def deferred(name: str) -> Callable[..., Any]:
    """Return a function by its full name; it is imported when it is first called.

    Every command lists the kinds of jobs, and few run one.
    """

    def call(*arguments: object) -> object:
        return resolve_name(name)(*arguments)

    return call


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """The definition of one kind of job."""

    purpose: str
    handle: Callable[[JobContext], None] | None = None
    """Runs the job; can be retried from any point, and ends with `Task.finish`.

    None if a package gives it under `commonbrain.jobs`.
    """
    extra: str = ""
    """The extra that installs that package."""
    parameters: Mapping[str, Validator]
    """Parameters and their validators."""
    role: Role
    """Minimum role of the requester."""
    asked_by: str | None = None
    """The operation that supplies the file to read; only it can create such jobs."""
    is_store_wide: bool = False
    """Whether the job works on data of all tenants; a single tenant cannot request it."""
    is_of_space: bool = False
    """Whether only programs of the store's embedding space can run the job."""
    limit: timedelta = timedelta(hours=1)
    """Time limit of one attempt."""
    attempts: int = limits.JOB_ATTEMPTS
    backoff: timedelta = timedelta(seconds=30)
    """Delay before the first retry."""
    every: timedelta | None = None
    """Interval of scheduled runs; None: on request only."""
    has_work: Callable[[Transaction], bool] = lambda _: True
    """Whether there is work, checked before a scheduled run."""
    is_due_early: Callable[[Transaction, Caller], bool] = lambda _tx, _caller: False
    """Whether a scheduled run is due before its interval ends."""
    is_resumable: bool = False
    """Whether an attempt continues where the last one stopped, so that the job yields to others.

    A dry run never does.
    """
    is_personal: bool = False
    """Whether the result depends on the requesting agent."""

    def handler(self, name: str) -> Callable[[JobContext], None]:
        """Return what runs jobs of this kind, of its name.

        Raises:
            InvalidInputError: `extra_missing`, its package is not installed.

        """
        if self.handle is not None:
            return self.handle
        row = load_row("jobs", name, extra=self.extra)
        return cast("Callable[[JobContext], None]", row)


def _is_evaluated(tx: Transaction) -> bool:
    """Return whether the package that evaluates is installed, and the store is large enough."""
    return (
        is_installed("commonbrain_evals")
        and sum(tx.memories.counts().values()) >= limits.EVALUATION_MEMORIES_MIN
    )


JOBS: Final[Mapping[str, JobKind]] = {
    EMBED: JobKind(
        purpose="Embed memories that were stored without vectors.",
        handle=deferred("commonbrain.jobs.handlers:embed"),
        is_resumable=True,
        parameters={},
        role=Role.WRITER,
        is_of_space=True,
        every=timedelta(hours=1),
        has_work=lambda tx: tx.missing_embeddings.pending() > 0,
    ),
    "atomize": JobKind(
        purpose="Extract causes from stored memories.",
        extra="causes",
        is_resumable=True,
        parameters={"kinds": _are_names, "project": _is_name},
        role=Role.WRITER,
        is_personal=True,
    ),
    "train_salience": JobKind(
        purpose="Train the salience of new memories on the use of earlier ones.",
        extra="learn",
        parameters={"lookback_days": _is_within(limits.SETTLED_DAYS + 1, limits.LOOKBACK_DAYS_MAX)},
        role=Role.ADMIN,
    ),
    "train_reranker": JobKind(
        purpose="Train a reranker on recall feedback, and compare it with the current ranking.",
        extra="learn",
        parameters={
            "lookback_days": _is_within(limits.LOOKBACK_DAYS_MIN, limits.LOOKBACK_DAYS_MAX),
            "min_marked": _is_within(limits.LESSONS_ASKED_MIN, limits.LESSONS_MAX),
        },
        role=Role.ADMIN,
    ),
    REFLECT: JobKind(
        purpose="Summarize events into episodes, and propose the facts they state.",
        handle=deferred("commonbrain.consolidation.reflection_job:reflect"),
        parameters={
            "window_hours": _is_within(1, limits.REFLECT_HOURS_MAX),
            "max_candidates": _is_within(1, limits.REFLECT_CANDIDATES_MAX),
            "project": _is_name,
        },
        role=Role.WRITER,
        every=timedelta(days=1),
        has_work=deferred("commonbrain.consolidation.reflection_job:has_work"),
        is_due_early=deferred("commonbrain.consolidation.reflection_job:is_due_early"),
        is_personal=True,
    ),
    "reword": JobKind(
        purpose="Rebuild the full-text index from the rows.",
        handle=deferred("commonbrain.jobs.handlers:rebuild_text_index"),
        parameters={},
        role=Role.ADMIN,
        is_store_wide=True,
    ),
    "eval": JobKind(
        purpose="Evaluate recall on queries made from the store's own memories.",
        extra="eval",
        is_resumable=True,
        parameters={"questions": _is_count, "seed": _is_count},
        role=Role.WRITER,
        every=timedelta(days=7),
        has_work=_is_evaluated,
        is_personal=True,
    ),
    "import": JobKind(
        purpose="Import a file, in a foreign format or Commonbrain's own.",
        handle=deferred("commonbrain.jobs.handlers:import_"),
        is_resumable=True,
        parameters={},
        role=Role.WRITER,
        asked_by="brain import --background, or POST /v1/import",
        limit=timedelta(hours=12),
    ),
    EXPORT: JobKind(
        purpose="Export everything into an archive, which can be downloaded for a day.",
        handle=deferred("commonbrain.jobs.handlers:export"),
        parameters={},
        role=Role.ADMIN,
        limit=timedelta(hours=6),
    ),
    DISCARD: JobKind(
        purpose="Delete expired uploads, exports and model artifacts.",
        handle=deferred("commonbrain.consolidation.artifact_cleanup:purge_upload"),
        parameters={},
        role=Role.WRITER,
        asked_by="what puts a file there",
    ),
    "respace": JobKind(
        purpose="Embed every memory with the next embedder.",
        handle=deferred("commonbrain.jobs.handlers:reembed"),
        is_resumable=True,
        parameters={"space": _is_name},
        role=Role.ADMIN,
        is_store_wide=True,
        limit=timedelta(days=1),
    ),
    "consolidate": JobKind(
        purpose="Report rules and facts that are near duplicates or often corrected.",
        handle=deferred("commonbrain.consolidation.near_duplicates:consolidate"),
        parameters={"project": _is_name},
        role=Role.WRITER,
        is_of_space=True,
        is_personal=True,
    ),
    MAINTAIN: JobKind(
        purpose="Maintain the store: expired memories, stale tasks, old jobs and events.",
        handle=deferred("commonbrain.consolidation.maintenance:maintain"),
        is_resumable=True,
        parameters={"dry_run": _is_flag},
        role=Role.ADMIN,
        every=timedelta(days=1),
    ),
}


def kind_of(name: str) -> JobKind:
    """Return a kind by its name.

    Raises:
        InvalidInputError: There is no such kind.

    """
    known = JOBS.get(name)
    if known is None:
        raise InvalidInputError(
            f"There is no job {name[:40]!r}.", hint=f"There is {', '.join(JOBS)}."
        )
    return known


def check_arguments(name: str, given: Mapping[str, object]) -> None:
    """Validate the arguments of a job.

    Raises:
        InvalidInputError: A name is unknown, a value is invalid, or all together are too long.

    """
    size = len(json.dumps(dict(given), ensure_ascii=False, default=str).encode())
    if size > limits.JOB_GIVEN_BYTES_MAX:
        raise InvalidInputError(
            f"{name} is given {size:,} bytes; {limits.JOB_GIVEN_BYTES_MAX:,} are allowed.",
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
    """Parse text arguments by the parameters of the kind: as text, JSON, or a list with one value.

    Raises:
        InvalidInputError: There is no such kind.

    """
    parameters = kind_of(name).parameters
    return {one: _as_taken(value, parameters.get(one)) for one, value in given.items()}


def _as_taken(value: object, fits: Validator | None) -> object:
    """Return the first interpretation that is valid, or the value itself, to be rejected."""
    readings = (value, *_read(value), [value])
    return value if fits is None else next(filter(fits, readings), value)


def _read(value: object) -> tuple[object, ...]:
    try:
        return (json.loads(value),) if isinstance(value, str) else ()
    except ValueError:
        return ()
