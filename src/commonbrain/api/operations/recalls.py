"""The operation recalls: the log of recalls with their candidates."""

from collections.abc import Iterator

from commonbrain.api.operation import Cursor, Name, Operation, Request, Transport, argument
from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.escaping import inert_line
from commonbrain.model.limits import LEDGER_PAGE_DEFAULT, LEDGER_PAGE_MAX
from commonbrain.model.paging import more_line
from commonbrain.retrieval.log import CandidateView, RecallPage, RecallView


class RecallsRequest(Request):
    """Which recalls to show: one with all its candidates, or the latest."""

    trace: str | None = argument(
        "trc_... from recall: only this one, with all its candidates",
    )
    agent: Name = argument("Only this agent's; others' need the role admin")
    session: Name = argument("Only this session's")
    memory: Name = argument("mem_...: only those that returned it")
    marked: bool = argument("Only those with a used memory", default=False)
    limit: int = argument(f"How many at most, 1 to {LEDGER_PAGE_MAX}", LEDGER_PAGE_DEFAULT)
    cursor: Cursor = None


def _handle(brain: Brain, request: RecallsRequest) -> RecallPage:
    fields = request.model_dump(exclude_defaults=True)
    if request.trace is None:
        return brain.recalls(**fields)
    if len(fields) > 1:
        raise InvalidInputError(
            "trace cannot be combined with filters.", hint="Give trace alone, or leave it out."
        )
    return RecallPage(recalls=(brain.recalls.one(request.trace),))


def _render(reply: RecallPage) -> str:
    lines = [line for one in reply.recalls for line in _render_recall(one)]
    return "\n".join([*lines, *more_line(reply.more, reply.next)]) or "No recall is stored."


def _render_recall(one: RecallView) -> Iterator[str]:
    asked_at_text = f"{one.asked_at:%Y-%m-%d %H:%M:%S}"
    author = f"{one.agent} {one.session}" if one.session else one.agent
    duration = f"{sum(one.stages_ms.values()):.1f} ms"
    ranker_name = one.ranker or "fixed weights"
    marks = [", ".join(f"{count} {mark}" for mark, count in one.marks.items())] if one.marks else []
    counts = f"{one.packed} of {one.considered}"
    yield inert_line(
        " | ".join(
            [one.id, asked_at_text, author, one.verdict, counts, ranker_name, duration, *marks]
        )
    )
    yield f"  > {inert_line(one.query) or '(no question)'}"
    yield from (f"  skipped: {inert_line(what)}" for what in one.degraded)
    for candidate in one.candidates or ():
        yield from _render_candidate(candidate)


def _render_candidate(one: CandidateView) -> Iterator[str]:
    outcome = one.shown or one.left_out or "not shown"
    marks = f" [{', '.join(one.marks)}]" if one.marks else ""
    text = one.headline or "(text not available)"
    yield "  " + inert_line(f"{one.place}. {one.id} {one.score:.3f} {outcome}{marks}: {text}")
    features = ", ".join(f"{name} {value:g}" for name, value in one.features.items())
    yield f"     {inert_line(features)}"


RECALLS = Operation(
    name="recalls",
    title="Recalls",
    purpose="Show the candidates of recalls, the returned and the used ones.",
    request=RecallsRequest,
    reply=RecallPage,
    handle=_handle,
    render_text=_render,
    transports=frozenset({Transport.CLI, Transport.REST}),
    positional=("trace",),
    is_read_only=True,
    is_idempotent=True,
)
