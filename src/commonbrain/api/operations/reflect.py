"""The operation reflect."""

from dataclasses import dataclass

from pydantic import Field

from commonbrain.api.operation import Name, Operation, Request, Transport, argument
from commonbrain.api.operations.job import render_single_job
from commonbrain.client import Brain
from commonbrain.consolidation.reflection import ReflectPreview, SummaryResult
from commonbrain.jobs.service import JobView
from commonbrain.model import limits
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.escaping import inert_line, pluralize
from commonbrain.model.kinds import Kind
from commonbrain.model.scope import Role
from commonbrain.storage.job_queue import REFLECT as KIND


class ReflectRequest(Request):
    """The memories to reflect on."""

    window_hours: int = Field(
        default=limits.REFLECT_HOURS_DEFAULT,
        ge=1,
        le=limits.REFLECT_HOURS_MAX,
        description=f"How far back, by recording time: 1 to {limits.REFLECT_HOURS_MAX} hours",
    )
    max_candidates: int = Field(
        default=limits.REFLECT_CANDIDATES_DEFAULT,
        ge=1,
        le=limits.REFLECT_CANDIDATES_MAX,
        description=f"Facts and rules to propose at most, 1 to {limits.REFLECT_CANDIDATES_MAX}",
    )
    project: Name = argument(
        "Only memories of this project, and those without a project",
    )
    query: str | None = Field(
        default=None,
        min_length=1,
        max_length=limits.QUERY_CHARS_MAX,
        description="Summarise this topic only, immediately",
    )
    dry_run: bool = argument("Show the result; store nothing", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectResponse:
    """The job that reflects, or a preview of its result."""

    job: JobView | None = None
    preview: ReflectPreview | None = None
    compacted: SummaryResult | None = None
    """The episode that summarises a query."""


def _handle(brain: Brain, request: ReflectRequest) -> ReflectResponse:
    options = request.model_dump(exclude={"dry_run"}, exclude_defaults=True)
    if request.query is not None:
        if "window_hours" in options or "max_candidates" in options:
            raise InvalidInputError(
                "query cannot be combined with window_hours or max_candidates.",
                hint="Leave them out: a query covers all times.",
            )
        reflection = brain.reflect.compact(
            request.query, project=request.project, is_preview=request.dry_run
        )
        return ReflectResponse(compacted=reflection)
    if request.dry_run:
        return ReflectResponse(preview=brain.reflect(**options))
    return ReflectResponse(job=brain.jobs.run(KIND, options))


def _render(reply: ReflectResponse) -> str:
    if reply.job is not None:
        return render_single_job(reply.job)
    if reply.compacted is not None:
        return _render_compacted(reply.compacted)
    preview = reply.preview or ReflectPreview(read=0)
    lines = [f"Of {preview.read} events and messages it would make {_count(preview)}."]
    for one in (*preview.episodes, *preview.candidates):
        lines.append(inert_line(f"{one.kind} | from {one.sources} | {one.headline}"))
        if one.kind is Kind.EPISODE:
            lines += [f"  {inert_line(line)}" for line in one.body.splitlines()]
    return "\n".join([*lines, *(["There are more."] if preview.is_more else [])])


def _render_compacted(made: SummaryResult) -> str:
    covered = f"{made.reduction_ratio:.0%} shorter"
    sources = " | ".join(one for one in (made.id, made.status) if one) or "would be made"
    head = f"{sources} | from {len(made.sources)}, {covered} | {made.headline}"
    lines = [head, *made.body.splitlines()] if made.body else []
    return "\n".join(map(inert_line, [*lines, *made.warnings]))


def _count(preview: ReflectPreview) -> str:
    episodes, candidates = len(preview.episodes), len(preview.candidates)
    made = pluralize(episodes, "episode", many="episodes")
    return f"{made}, and propose {pluralize(candidates, 'fact or rule', many='facts and rules')}"


REFLECT = Operation(
    name="reflect",
    title="Reflect",
    purpose="Summarise recent events as episodes, and propose facts and rules for approval.",
    request=ReflectRequest,
    reply=ReflectResponse,
    handle=_handle,
    render_text=_render,
    role=Role.WRITER,
    consumes_quota=lambda request: not request.dry_run,
    transports=frozenset({Transport.CLI, Transport.REST}),
    is_idempotent=True,
)
