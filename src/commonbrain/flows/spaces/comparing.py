"""Asking what was asked before in two spaces, which leaves no trace and counts no access."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from commonbrain.domain import ids
from commonbrain.domain.errors import NotFound
from commonbrain.domain.ledger import Entry, Mark
from commonbrain.domain.limits import (
    COMPARED_MAX,
    COMPARED_PAGE,
    COMPARED_PAGES_MAX,
    RECALL_TOKENS_MAX,
)
from commonbrain.domain.recollection import Verdict
from commonbrain.domain.scope import Caller
from commonbrain.domain.space_comparison import TOP, Answer, Compared, Comparison, compare
from commonbrain.flows.house import House
from commonbrain.flows.journal import Journal, Ledger
from commonbrain.flows.recall.pipeline import Recall
from commonbrain.ports.keeping import Progress
from commonbrain.ports.ledger import EntryFilter
from commonbrain.ports.telemetry import SILENT

_HELPED: Final = frozenset({Mark.USED, Mark.USEFUL})
COMPARED_SINCE: Final = timedelta(days=30)
"""What was asked longer ago tells less of what will be asked."""
_DRAWN_BITS: Final = 32
"""So many that what remains of a division by a few hundred favours none of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What somebody asked, and what helped them."""

    query: str
    agent: str
    helped: frozenset[int]


def compared(house: House, other: House, *, caller: Caller, on_progress: Progress) -> Comparison:
    """Ask the latest questions of the ledger in both houses' spaces.

    Raises:
        NotFound: the ledger holds no question.
        Unavailable: an embedder or the store does not answer.

    """
    questions = asked_before(house, caller)
    if not questions:
        raise NotFound(
            "The ledger holds no question that could be asked again.",
            hint="Use the store for a while with COMMONBRAIN_TRACE_SHARE above 0.",
        )
    done: list[Compared] = []
    for one in questions:
        as_asked = replace(caller, agent=one.agent)
        answers = [_answer(each, as_asked, query=one.query) for each in (house, other)]
        done.append(Compared(one=answers[0], other=answers[1], helped=one.helped))
        on_progress(len(done) / len(questions))
    return compare(
        done,
        names=(house.store.space.name, other.store.space.name),
        draw=lambda count: house.chance.bits(_DRAWN_BITS) % count,
    )


def asked_before(house: House, caller: Caller) -> list[Question]:
    """Give the latest questions of a tenant, each once, those rather that were marked."""
    latest: dict[str, Question] = {}
    for entry in _entries(house, caller):
        # What helped once helps whoever asks the same again.
        known = latest.pop(entry.query, None)
        helped = _helped(entry).union(known.helped if known else ())
        latest[entry.query] = Question(query=entry.query, agent=entry.agent, helped=helped)
    # Sorting keeps the order: those of which it is known what helped come last, each by its age.
    by_worth = sorted(latest.values(), key=lambda one: bool(one.helped))
    return by_worth[-COMPARED_MAX:]


def _entries(house: House, caller: Caller) -> Iterator[Entry]:
    """Read the ledger page by page, what is of the last weeks."""
    wanted = EntryFilter(since=house.clock.now() - COMPARED_SINCE)
    after = 0
    for _ in range(COMPARED_PAGES_MAX):
        with house.store.snapshot(caller.tenant) as tx:
            page = tx.ledger.entries(wanted, after=after, limit=COMPARED_PAGE)
        yield from (one for one in page if one.query)
        if len(page) < COMPARED_PAGE:
            return
        after = page[-1].id


def _helped(entry: Entry) -> frozenset[int]:
    return frozenset(
        id_ for id_, marks in entry.marks.items() if marks & _HELPED and Mark.WRONG not in marks
    )


def _answer(house: House, caller: Caller, *, query: str) -> Answer:
    """Ask, and leave nothing behind."""
    nothing = Ledger(share=0.0)
    journal = Journal(house.store, house.screen, clock=house.clock, ledger=nothing)
    silent = replace(house, journal=journal, telemetry=SILENT)
    began_ms = house.clock.elapsed_ms()
    told = Recall(silent, caller)(query, max_items=TOP, max_tokens=RECALL_TOKENS_MAX, bump=False)
    return Answer(
        ids=tuple(ids.parse(ids.MEMORY, item.id) for item in told.items),
        is_answered=told.verdict is Verdict.FOUND,
        took_ms=house.clock.elapsed_ms() - began_ms,
    )
