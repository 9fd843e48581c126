"""The operation job: what is done behind the calls, and what became of it."""

from typing import Final, Literal

from pydantic import Field, JsonValue

from commonbrain.brain import Brain
from commonbrain.domain.errors import Invalid
from commonbrain.domain.inert import inert_line
from commonbrain.domain.limits import JOBS_PAGE_DEFAULT, JOBS_PAGE_MAX
from commonbrain.domain.scope import Role
from commonbrain.flows.upkeep.jobs import JobsShown, ShownJob
from commonbrain.flows.upkeep.table import JOBS, as_taken
from commonbrain.interfaces.operations.job_lines import entries, said
from commonbrain.interfaces.operations.operation import (
    PLAIN,
    UNSEEN,
    Command,
    Name,
    Operation,
    Request,
)

_ALLOWED: Final = {
    "list": frozenset({"state", "kind", "limit", "before"}),
    "show": frozenset({"id"}),
    "run": frozenset({"kind", "given"}),
    "retry": frozenset({"id"}),
    "cancel": frozenset({"id"}),
}
"""What each can be told; of `id` and `kind` it needs those it takes, but for list."""
_KINDS: Final = ", ".join(JOBS)
_FOR_AGENTS: Final = ", ".join(name for name, kind in JOBS.items() if kind.role is not Role.ADMIN)
"""What every agent may ask for; whoever names another is told of all."""


class JobRequest(Request):
    """What is asked about which job."""

    op: Literal["list", "show", "run", "retry", "cancel"] = Field(
        default="list", description="What to do", json_schema_extra=PLAIN
    )
    id: str | None = Field(default=None, description="job_...")
    kind: Name = Field(default=None, description=_FOR_AGENTS)
    given: dict[str, JsonValue] = Field(
        default={},
        description="What it is given, by name; a kind that takes something else says what",
        json_schema_extra=UNSEEN,
    )
    state: Name = Field(
        default=None,
        description="Only those that are queued, running, done, dead or cancelled",
        json_schema_extra=PLAIN,
    )
    limit: int = Field(
        default=JOBS_PAGE_DEFAULT,
        description=f"How many at most, 1 to {JOBS_PAGE_MAX}",
        json_schema_extra=UNSEEN,
    )
    before: str | None = Field(
        default=None, description="Go on before this job", json_schema_extra=UNSEEN
    )


def _handle(brain: Brain, request: JobRequest) -> JobsShown:
    given = request.model_dump(exclude={"op"}, exclude_defaults=True)
    foreign = sorted(set(given) - _ALLOWED[request.op])
    if foreign:
        known = ", ".join(sorted(_ALLOWED[request.op]))
        raise Invalid(f"{request.op} takes no {', '.join(foreign)}.", hint=f"It takes {known}.")
    if request.op == "list":
        return brain.jobs(**given)
    return JobsShown(jobs=(_one(brain, request),))


def _one(brain: Brain, request: JobRequest) -> ShownJob:
    match request:
        case JobRequest(op="run", kind=str(kind)):
            return brain.jobs.run(kind, as_taken(kind, request.given))
        case JobRequest(op="show", id=str(id_)):
            return brain.jobs.show(id_)
        case JobRequest(op="retry", id=str(id_)):
            return brain.jobs.retry(id_)
        case JobRequest(op="cancel", id=str(id_)):
            return brain.jobs.cancel(id_)
        case _:
            needed = "kind" if request.op == "run" else "id"
            raise Invalid(f"{request.op} needs {needed}.", hint=f"Give {needed}.")


def _tell(reply: JobsShown) -> str:
    lines = [tell_job(one) for one in reply.jobs] or ["No job."]
    if len(reply.jobs) == 1:
        lines += [f"  {inert_line(one)}" for one in entries(reply.jobs[0].result or {})]
    return "\n".join([*lines, *(["There are more."] if reply.is_more else [])])


def tell_job(one: ShownJob) -> str:
    """Give a job on one line."""
    parts = [one.id, one.kind, f"{one.state} {one.progress:.0%}"]
    if one.attempts:
        parts.append(f"attempt {one.attempts}")
    if one.result is not None:
        is_preview = bool((one.given or {}).get("dry_run"))
        parts.append(said(one.kind, one.result, is_preview=is_preview))
    if one.error is not None:
        parts.append(f"{one.error}: {one.reason}")
    return inert_line(" | ".join(parts))


_PURPOSES: Final = {
    "list": "List jobs, the newest first; --state dead: those that failed for good.",
    "show": "Show one job: how far it has come, what came of it, why it failed.",
    "run": f"Ask for a job: {_KINDS}.",
    "retry": "Give a dead letter, or what was cancelled, all its attempts again.",
    "cancel": "End a job that waits or runs; what it did so far stays.",
}
_POSITIONAL: Final = {"show": ("id",), "run": ("kind",), "retry": ("id",), "cancel": ("id",)}

JOB = Operation(
    name="job",
    title="Job",
    purpose="See or start work behind the calls.",
    request=JobRequest,
    reply=JobsShown,
    handle=_handle,
    tell=_tell,
    role=Role.WRITER,
    is_idempotent=True,
    commands=tuple(
        Command(
            name=f"job {op}",
            purpose=purpose,
            preset={"op": op},
            fields=_ALLOWED[op],
            positional=_POSITIONAL.get(op, ()),
            required=frozenset(_POSITIONAL.get(op, ())),
            is_awaited=op == "run",
        )
        for op, purpose in _PURPOSES.items()
    ),
)
