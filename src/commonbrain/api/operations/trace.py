"""The operation trace: why something came about, what came of it, and what it rests on."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal

from pydantic import Field

from commonbrain.api.operation import PLAIN, Command, Name, Operation, Request
from commonbrain.causality.result import TraceResult, TraceStep
from commonbrain.causality.trace import DEEPEN_DEPTH, DEPTH_MAX, HOURS_DEFAULT, Trace
from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.escaping import inert_line
from commonbrain.model.memory import CURRENT_STATES
from commonbrain.model.timestamps import show_instant

Op = Literal["causes", "effects", "before", "patterns", "deepen", "dependents", "provenance"]


class TraceRequest(Request):
    """What to trace, and how far."""

    op: Op = Field(description="before, patterns, deepen: of an outcome in text")
    id: Name = Field(default=None, description="mem_...", json_schema_extra=PLAIN)
    text: str = Field(default="", description="Instead of id", json_schema_extra=PLAIN)
    hours: float = Field(
        default=HOURS_DEFAULT, description="before, patterns: the window", json_schema_extra=PLAIN
    )
    depth: int | None = Field(
        default=None, description="1 to 10 steps; deepen: 5", json_schema_extra=PLAIN
    )


_Call = Callable[[Trace, TraceRequest], TraceResult]
_CALLS: Final[Mapping[Op, _Call]] = {
    "causes": lambda trace, told: trace.causes(_what(told), depth=_depth(told)),
    "effects": lambda trace, told: trace.effects(_what(told), depth=_depth(told)),
    "before": lambda trace, told: trace.before(_what(told), hours=told.hours),
    "patterns": lambda trace, told: trace.patterns(_text(told), hours=told.hours),
    "deepen": lambda trace, told: trace.deepen(_text(told), depth=_depth(told, DEEPEN_DEPTH)),
    "dependents": lambda trace, told: trace.dependents(_id(told), depth=_depth(told)),
    "provenance": lambda trace, told: trace.provenance(_id(told)),
}


def _what(told: TraceRequest) -> str:
    return told.id or told.text


def _text(told: TraceRequest) -> str:
    if not told.text:
        raise InvalidInputError(f"{told.op} needs text.", hint="Say the outcome in words.")
    return told.text


def _id(told: TraceRequest) -> str:
    given = told.id or told.text
    if not given:
        raise InvalidInputError(f"{told.op} needs id.", hint="Recall it first.")
    return given


def _depth(told: TraceRequest, default: int = DEPTH_MAX) -> int:
    return default if told.depth is None else told.depth


def _handle(brain: Brain, request: TraceRequest) -> TraceResult:
    return _CALLS[request.op](brain.trace, request)


def _tell(reply: TraceResult) -> str:
    return "\n".join(_lines(reply))


def _lines(reply: TraceResult) -> Iterator[str]:
    yield inert_line(f"{reply.op} of {reply.asked}")
    yield from (f"{'  ' * one.depth}{step_line(one)}" for one in reply.steps)
    yield from summary_lines(reply)


def step_line(one: TraceStep) -> str:
    """Tell of one step on one line."""
    how = one.via or ""
    if one.strength is not None:
        how += f" {one.strength:.2f} seen {one.observations}x"
    if one.score is not None:
        how += f" {one.score:.2f}"
    known = (
        how,
        f"{one.id} {one.kind}",
        f"by {one.agent}",
        show_instant(one.occurred_at)[:16],
        f"source {one.source_ref}" if one.source_ref else "",
        f"from {one.source_message}" if one.source_message else "",
        f"in {one.thread}" if one.thread else "",
        f"{one.state}" if one.state not in CURRENT_STATES else "",
        "root" if one.is_root else "",
    )
    return inert_line(f"{' | '.join(part for part in known if part)}: {one.headline}")


def summary_lines(reply: TraceResult) -> Iterator[str]:
    """Tell what the steps come to, and what they do not carry."""
    for root in reply.roots:
        explains = f", explains {root.explains}" if reply.op == "deepen" else ""
        guess = ", a guess by alike words" if root.is_guess else ""
        yield inert_line(f"root: {root.id}{explains}{guess}: {root.headline}")
    for one in reply.precursors:
        may = ", a candidate cause" if one.is_candidate else ""
        share = f"{one.count}x ({one.share:.0%})"
        yield inert_line(f"before: {one.subject} {share}, {one.minutes_before:.0f} min{may}")
    if reply.pattern is not None:
        known = reply.pattern
        yield f"pattern: {known.observations} observations"
        for name in ("outcome_delay_s", "consequence_delay_s", "peak_hour"):
            value = getattr(known, name)
            if value is not None:
                yield f"pattern: {name} {value:g}"
    if reply.because:
        yield reply.because
    yield from (f"gap: {line}" for line in reply.gaps)
    yield from (f"limit: {line}" for line in reply.limits)


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
    title="Trace",
    purpose="Why it came about, what came of it, precedes it or rests on it; with limits of the "
    "evidence.",
    request=TraceRequest,
    reply=TraceResult,
    handle=_handle,
    tell=_tell,
    is_read_only=True,
    is_idempotent=True,
    commands=(
        _command("causes", "What led to a memory, by id or words.", by="text", more=_DEEP),
        _command("effects", "What came of a memory, by id or words.", by="text", more=_DEEP),
        _command("before", "What usually came before an outcome.", by="text", more=_TIMED),
        _command("patterns", "Delays, precursors and hour of an outcome.", by="text", more=_TIMED),
        _command("deepen", "The roots that explain most episodes.", by="text", more=_DEEP),
        _command("dependents", "What rests on a memory.", by="id", more=_DEEP),
        _command("provenance", "Where a memory comes from.", by="id", more=frozenset()),
    ),
)
