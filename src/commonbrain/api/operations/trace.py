"""The operation trace: causes, effects, precursors, dependents and provenance."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal

from pydantic import Field

from commonbrain.api.operation import Command, Name, Operation, Request, argument
from commonbrain.causality.result import Precursor, TraceResult, TraceStep
from commonbrain.causality.trace import DEEPEN_DEPTH, DEPTH_MAX, HOURS_DEFAULT, CausalTrace
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.escaping import inert_line
from commonbrain.model.memory import CURRENT_STATES
from commonbrain.model.timestamps import show_instant

Op = Literal["causes", "effects", "before", "patterns", "deepen", "dependents", "provenance"]


class TraceRequest(Request):
    """The memory or outcome to trace, and how far."""

    op: Op = Field(description="before, patterns, deepen: of an outcome in text")
    id: Name = argument("The id of the memory to start from, mem_...", agents="")
    text: str = argument("What happened, in words, instead of an id", "", agents="")
    hours: float = argument(
        "before, patterns: how many hours to look back", HOURS_DEFAULT, agents=""
    )
    depth: int | None = argument("How many steps to follow, 1 to 10; deepen: 5", agents="")


_Call = Callable[[CausalTrace, TraceRequest], TraceResult]
_CALLS: Final[Mapping[Op, _Call]] = {
    "causes": lambda trace, request: trace.causes(_target(request), depth=_depth(request)),
    "effects": lambda trace, request: trace.effects(_target(request), depth=_depth(request)),
    "before": lambda trace, request: trace.before(_target(request), hours=request.hours),
    "patterns": lambda trace, request: trace.patterns(_require_text(request), hours=request.hours),
    "deepen": lambda trace, request: trace.deepen(
        _require_text(request), depth=_depth(request, DEEPEN_DEPTH)
    ),
    "dependents": lambda trace, request: trace.dependents(
        _require_id(request), depth=_depth(request)
    ),
    "provenance": lambda trace, request: trace.provenance(_require_id(request)),
}


def _target(request: TraceRequest) -> str:
    return request.id or request.text


def _require_text(request: TraceRequest) -> str:
    if not request.text:
        raise InvalidInputError(f"{request.op} needs text.", hint="Describe the outcome in text.")
    return request.text


def _require_id(request: TraceRequest) -> str:
    value = request.id or request.text
    if not value:
        raise InvalidInputError(f"{request.op} needs id.", hint="Recall it first.")
    return value


def _depth(request: TraceRequest, default: int = DEPTH_MAX) -> int:
    return default if request.depth is None else request.depth


def _lines(reply: TraceResult) -> Iterator[str]:
    yield inert_line(f"{reply.op}: {reply.asked}")
    yield from (f"{'  ' * one.depth}{render_step(one)}" for one in reply.steps)
    yield from render_summary(reply)


def render_step(one: TraceStep) -> str:
    """Render one step on one line."""
    relation = one.via or ""
    if one.strength is not None:
        relation += f" {one.strength:.2f} seen {one.observations}x"
    if one.score is not None:
        relation += f" {one.score:.2f}"
    details = (
        relation,
        one.basis or "",
        f"{one.id} {one.kind}",
        f"by {one.agent}",
        show_instant(one.occurred_at)[:16],
        f"source {one.source_ref}" if one.source_ref else "",
        f"from {one.source_message}" if one.source_message else "",
        f"in {one.thread}" if one.thread else "",
        f"{one.state}" if one.state not in CURRENT_STATES else "",
        "root" if one.is_root else "",
    )
    return inert_line(f"{' | '.join(part for part in details if part)}: {one.headline}")


def render_summary(reply: TraceResult) -> Iterator[str]:
    """Render roots, precursors and pattern, then the gaps and limits of the evidence."""
    for root in reply.roots:
        explains = f", explains {root.explains}" if reply.op == "deepen" else ""
        guess_note = ", a guess" if root.is_guess else ""
        yield inert_line(f"root: {root.id}{explains}{guess_note}: {root.headline}")
    yield from (inert_line(f"before: {_precursor(one)}") for one in reply.precursors)
    if reply.pattern is not None:
        pattern = reply.pattern
        yield f"pattern: {pattern.observations} observations"
        for name in ("outcome_delay_s", "consequence_delay_s", "peak_hour"):
            value = getattr(pattern, name)
            if value is not None:
                yield f"pattern: {name} {value:g}"
    if reply.because:
        yield reply.because
    yield from (f"changed: {line}" for line in reply.changes)
    yield from (f"gap: {line}" for line in reply.gaps)
    yield from (f"limit: {line}" for line in reply.limits)


def _precursor(one: Precursor) -> str:
    minutes = [f"{at:.0f}" for at in (one.minutes_min, one.minutes_max)]
    details = (
        f"{one.subject} {one.count}x ({one.share:.0%})",
        f"{one.minutes_before:.0f} min" + (f" ({' to '.join(minutes)})" if one.count > 1 else ""),
        f"{one.without}x without it" if one.without is not None else "",
        "a candidate cause" if one.is_candidate else "",
    )
    return ", ".join(part for part in details if part)


def _command(op: Op, purpose: str, *, by: Literal["id", "text"], more: frozenset[str]) -> Command:
    return Command(
        name=f"trace {op}",
        purpose=purpose,
        preset={"op": op},
        fields=more | {by},
        positional=(by,),
        required=frozenset({by}),
    )


_DEEP: Final = frozenset({"depth"})
_TIMED: Final = frozenset({"hours"})

TRACE = Operation(
    name="trace",
    title="CausalTrace",
    purpose="Find causes, effects, precursors and dependents of a memory, with limits of the "
    "evidence.",
    request=TraceRequest,
    reply=TraceResult,
    handle=lambda brain, request: _CALLS[request.op](brain.trace, request),
    render_text=lambda reply: "\n".join(_lines(reply)),
    is_read_only=True,
    is_idempotent=True,
    commands=(
        _command("causes", "Trace the causes of a memory, by id or text.", by="text", more=_DEEP),
        _command("effects", "Trace the effects of a memory, by id or text.", by="text", more=_DEEP),
        _command("before", "Find what usually precedes an outcome.", by="text", more=_TIMED),
        _command(
            "patterns",
            "Show delays, precursors and peak hour of an outcome.",
            by="text",
            more=_TIMED,
        ),
        _command(
            "deepen", "Find the root causes that explain most episodes.", by="text", more=_DEEP
        ),
        _command("dependents", "List the memories that depend on a memory.", by="id", more=_DEEP),
        _command("provenance", "Show where a memory comes from.", by="id", more=frozenset()),
    ),
)
