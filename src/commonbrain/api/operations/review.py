"""The operation review: open conflicts, memories to review, proposals."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal

from commonbrain.api.operation import Cursor, Name, Operation, Request, Transport, argument
from commonbrain.history.review_queue import (
    ConflictItem,
    DuplicateItem,
    PendingItem,
    ReviewQueue,
    StaleItem,
)
from commonbrain.history.summaries import MemorySummary
from commonbrain.model import limits
from commonbrain.model.escaping import inert_line, inert_part
from commonbrain.model.paging import more_line
from commonbrain.model.timestamps import show_day


class ReviewRequest(Request):
    """The category, project and page to list."""

    category: Literal["conflicts", "needs_review", "proposals", "duplicates"] | None = argument(
        "Only one category"
    )
    project: Name = argument(
        "Only memories of this project, and those without a project",
    )
    limit: int = argument(
        "How many of each category at most, 1 to 100",
        limits.AGENDA_DEFAULT,
    )
    cursor: Cursor = None


def render_review_queue(reply: ReviewQueue) -> str:
    """Render the review queue as text."""
    lines = [
        line
        for _, rows in groupby(rows_of(reply), key=_question_of)
        for line in _question_lines(list(rows))
    ]
    lines += [f"Skipped: {reason}" for reason in reply.degraded]
    return "\n".join([*lines, *more_line(reply.more, reply.next)]) or "Nothing needs a decision."


ReviewRow = ConflictItem | StaleItem | PendingItem | DuplicateItem


def rows_of(reply: ReviewQueue) -> tuple[ReviewRow, ...]:
    """Return the entries of all categories, in order."""
    return (*reply.conflicts, *reply.needs_review, *reply.proposals, *reply.duplicates)


def _question_of(row: ReviewRow) -> tuple[object, ...]:
    """Return the key of a question: pending texts of one call, such as a file, are one."""
    if isinstance(row, PendingItem) and row.change is None:
        return row.memory.agent, row.memory.project, row.since
    return (id(row),)


def _question_lines(rows: Sequence[ReviewRow]) -> Iterator[str]:
    if len(rows) == 1:
        yield from reviews_lines(rows[0])
        return
    pending = [row for row in rows if isinstance(row, PendingItem)]
    since = show_day(pending[0].since)
    yield f"proposals, {len(pending)} of one call, trust {pending[0].memory.trust}, since {since}"
    yield from (line for one in pending for line in effects_lines(one))
    together = ",".join(one.memory.id for one in pending)
    yield from (f"  -> revise {verb} {together} --reason WHY" for verb in ("approve", "reject"))


def reviews_lines(row: ReviewRow) -> Iterator[str]:
    """Render one entry: its reason, its memories and the calls that resolve it."""
    since = f", since {show_day(row.since)}" if row.since else ""
    match row:
        case ConflictItem():
            yield f"conflict of {row.basis}, gap {row.gap}{since}"
            yield from _memory_lines(row.preferred, notes=row.why)
            yield from _memory_lines(row.other, lead="against ")
            for which, done in (("first", row.effects), ("other", row.other_effects)):
                if done:
                    yield f"  {_parts(f'deciding for the {which}', *done)}"
        case StaleItem():
            old = f"; it repeats what {row.repeats_old_of} replaced" if row.repeats_old_of else ""
            yield f"{row.because}{old}{since}"
            yield from _memory_lines(row.memory)
        case PendingItem():
            yield _parts(
                *("proposal", f"by {row.memory.agent}", f"trust {row.memory.trust}"),
                *(f"since {show_day(row.since)}", f"because {row.reason}" if row.reason else ""),
            )
            yield from effects_lines(row)
        case DuplicateItem():
            yield f"rules that may say the same, similarity {row.similarity:.2f}{since}"
            yield from _memory_lines(row.newer)
            yield from _memory_lines(row.older, lead="and ")
    yield from (f"  -> {call}" for call in row.settle)


def effects_lines(row: PendingItem) -> Iterator[str]:
    """Render all that an approval does, with the memories that it does it to."""
    for one in row.effects:
        yield from _memory_lines(one.memory, effects=one.effects)


def _memory_lines(
    one: MemorySummary,
    *,
    effects: Sequence[str] = (),
    lead: str = "",
    notes: Sequence[str] = (),
) -> Iterator[str]:
    """Render what is known of a memory on one line, then its whole text, each line quoted."""
    project = f"project {one.project}" if one.project else ""
    known = (f"{lead}{one.id}", *one.traits, f"by {one.agent}", project)
    yield f"  {_parts(*effects, *known, *notes)}"
    yield from (f"  > {inert_line(line)}" for line in one.text.splitlines() if line.strip())
    if one.left_out:
        yield f"  {one.left_out:,} characters follow; get {one.id} shows all of them"


def _parts(*parts: str) -> str:
    """Join the parts of a line; none can look like two."""
    return " | ".join(map(inert_part, filter(None, parts)))


REVIEW = Operation(
    name="review",
    title="Review",
    purpose="List what needs a decision: conflicts, memories to review, proposals, duplicates.",
    request=ReviewRequest,
    reply=ReviewQueue,
    handle=lambda brain, request: brain.review(**request.model_dump()),
    render_text=render_review_queue,
    transports=frozenset({Transport.CLI, Transport.REST}),
    positional=("category",),
    is_read_only=True,
    is_idempotent=True,
)
