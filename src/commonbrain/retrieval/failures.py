"""Recall for a failure: what fixed the same error before.

Memories of failures are looked up by the exact marks of what was printed, then compared. Incidents
that were written by hand are candidates by words, and only shown if they quote the error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from commonbrain.ingestion.failures import FAILURE_LABEL, failure_in, name_elsewhere
from commonbrain.invalidation.dependents import open_reviews
from commonbrain.model import ids
from commonbrain.model.escaping import inert, inert_part
from commonbrain.model.kinds import Kind
from commonbrain.model.messages import author_of
from commonbrain.model.query import Candidate, Filter, is_allowed
from commonbrain.model.recall_result import HEADING
from commonbrain.model.scope import Authority
from commonbrain.model.timestamps import show_instant
from commonbrain.model.values import dataclass, replace
from commonbrain.retrieval.plan import search_terms
from commonbrain.retrieval.proactive import is_news, record_shown, shown_to
from commonbrain.retrieval.value_history import ChangeReader
from commonbrain.storage.interface import QueryScope
from commonbrain.text.failures import Failure, marks, normalise_line, read_failure, similarity
from commonbrain.text.tokens import estimate

if TYPE_CHECKING:
    from commonbrain.model.memory import Memory
    from commonbrain.model.scope import Caller
    from commonbrain.services import Services
    from commonbrain.storage.store import Transaction

_LOOKED_AT: Final = 60
_ASKED_TOKENS: Final = 400
"""Of a memory that a caller asked for."""
_QUOTING_MAX: Final = 20
"""Incidents read for a quotation of the error."""
_QUOTED_WORDS_MIN: Final = 4
"""A shorter line stands in texts on other matters, too."""
_QUOTED_SCORE: Final = 0.3
_ERROR_CHARS: Final = 100
"""Of the error, which the reader has just seen, where the fix needs the rest."""
_TEXT_CHARS: Final = 260
"""Of a text of one line, which fits into 120 tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFix:
    """A memory of a failure, as much of it as is shown."""

    id: str
    kind: str
    """Its label, or its kind."""
    agent: str | None
    """None if its name may mislead."""
    date: str
    project: str | None
    """None if it has none, or its name may mislead."""
    text: str

    @property
    def evidence(self) -> str:
        """The text for an agent: quoted, dated and attributed."""
        agent = (f"by {inert_part(self.agent)}",) if self.agent else ()
        project = (f"project {inert_part(self.project)}",) if self.project else ()
        named = (self.id, inert_part(self.kind), self.date, *agent, *project)
        quoted = (f"> {inert(line)}" for line in self.text.splitlines())
        return "\n".join((HEADING, f"[1] {' | '.join(named)}", *quoted))


def _is_foreign(caller: Caller, memory: Memory) -> bool:
    """Return whether a model asks, for what a repository that misleads may have written elsewhere.

    What was captured without a project may come from any folder.
    """
    if Authority.PERSON in {caller.authority, memory.authority}:
        return False
    if memory.project is None:
        return bool(failure_in(memory).excerpt)
    return memory.project != caller.project


def _text_for(caller: Caller, memory: Memory) -> str:
    """Return what a caller is shown of a memory; nothing of a text that it must not read."""
    if _is_foreign(caller, memory):
        return failure_in(memory).text_elsewhere
    return memory.body or memory.headline


def _fix_for(caller: Caller, memory: Memory, *, max_tokens: int) -> KnownFix:
    """Return as much of a memory as fits: of a long one the fix rather than the whole error."""
    text = _text_for(caller, memory)
    error, *fix = text.splitlines()
    whole = KnownFix(
        id=ids.show(ids.MEMORY, memory.id),
        kind=memory.label or memory.kind,
        agent=author_of(memory),
        date=show_instant(memory.occurred_at)[:10],
        project=memory.project,
        text=text,
    )
    if _is_foreign(caller, memory):
        whole = replace(
            whole,
            kind=FAILURE_LABEL,
            agent=name_elsewhere(author_of(memory)),
            project=name_elsewhere(memory.project or ""),
        )
    if estimate(whole.evidence) <= max_tokens:
        return whole
    error = _shortened(error, _ERROR_CHARS if fix else _TEXT_CHARS)
    while fix and estimate(replace(whole, text="\n".join([error, *fix])).evidence) > max_tokens:
        fix.pop()
    return replace(whole, text="\n".join([error, *fix]))


def _shortened(line: str, chars: int) -> str:
    return line if len(line) <= chars else f"{line[: chars - 4].rstrip()} ..."


@dataclass(frozen=True, slots=True)
class RecallForFailure:
    """Finds what fixed a failure before, for one caller."""

    services: Services
    caller: Caller

    def __call__(self, failure: Failure, *, max_tokens: int) -> KnownFix | None:
        """Return the best memory of this failure that the session was not shown; None if unsure.

        Raises:
            UnavailableError: the store cannot be read.

        """
        unwritten = self.services.journal.unwritten_shown(self.caller)
        scope = self._scope
        with self.services.store.snapshot(self.caller.tenant) as tx:
            ranked = self._ranked(tx, failure, scope=scope)
            reviews = open_reviews(tx, [one.id for one in ranked], as_of=scope.now)
            shown = shown_to(tx, self.caller, unwritten=unwritten)
        fresh = [one for one in ranked if is_news(one.id, shown=shown, reviews=reviews)]
        if not fresh:
            return None
        shown_now = [fresh[0].id]
        record_shown(self.services, self.caller, ids=shown_now, reviews=reviews, at=scope.now)
        return _fix_for(self.caller, fresh[0], max_tokens=max_tokens)

    def best(self, failure: Failure, *, max_tokens: int) -> KnownFix | None:
        """Return the best memory of this failure, whatever the session was shown."""
        with self.services.store.snapshot(self.caller.tenant) as tx:
            ranked = self._ranked(tx, failure, scope=self._scope)
        if not ranked:
            return None
        return _fix_for(self.caller, ranked[0], max_tokens=max_tokens)

    def known(self, failure: Failure) -> Sequence[Memory]:
        """Return the captured memories of this failure, the surest first."""
        with self.services.store.snapshot(self.caller.tenant) as tx:
            candidates = list(self._by_marks(tx, failure, scope=self._scope))
        return [one.memory for one in sorted(candidates, key=lambda one: -one.score)]

    @property
    def _scope(self) -> QueryScope:
        # The same error of another project mostly has the same fix, so none is left out.
        criteria = Filter(
            kinds=(Kind.INCIDENT,),
            trust_min=self.services.parameters_for(self.caller).proactive_trust_min,
        )
        return QueryScope(caller=self.caller, filter=criteria, now=self.services.clock.now())

    def _ranked(self, tx: Transaction, failure: Failure, *, scope: QueryScope) -> list[Memory]:
        """Return the current memories of this failure: people's, then the surest, the newest."""
        candidates = [
            *self._by_marks(tx, failure, scope=scope),
            *self._quoting(tx, failure, scope=scope),
        ]
        reader = ChangeReader(tx=tx, caller=self.caller, now=scope.now, criteria=scope.filter)
        outdated = reader.successors([one.memory for one in candidates])
        ranked = sorted(
            candidates,
            key=lambda one: (
                one.memory.authority is not Authority.PERSON,
                -one.score,
                -one.memory.id,
            ),
        )
        return [one.memory for one in ranked if one.memory.id not in outdated]

    def _by_marks(
        self, tx: Transaction, failure: Failure, *, scope: QueryScope
    ) -> Iterator[Candidate]:
        keys = marks(failure)
        known = self._allowed(
            tx, tx.memories.with_topics(keys, scope, limit=_LOOKED_AT), scope=scope
        )
        for memory in known:
            earlier = read_failure(failure_in(memory).excerpt)
            if earlier is None:
                continue
            is_near = memory.project == self.caller.project
            score = similarity(failure, earlier, same_project=is_near)
            if score > 0:
                yield Candidate(memory=memory, features={}, score=score)

    def _quoting(
        self, tx: Transaction, failure: Failure, *, scope: QueryScope
    ) -> Iterator[Candidate]:
        """Yield incidents whose text has the most telling line."""
        line = failure.texts[0]
        if len(line.split()) < _QUOTED_WORDS_MIN:
            return
        hits = tx.index.lexical(search_terms(line), scope, limit=_QUOTING_MAX)
        for memory in self._allowed(tx, [hit.id for hit in hits], scope=scope):
            if not failure_in(memory).excerpt and _quotes(memory.text, line):
                yield Candidate(memory=memory, features={}, score=_QUOTED_SCORE)

    def _allowed(self, tx: Transaction, known: Sequence[int], *, scope: QueryScope) -> list[Memory]:
        return [
            one
            for one in tx.memories.get(known).values()
            if is_allowed(one, self.caller, criteria=scope.filter, now=scope.now)
            and _text_for(self.caller, one)
        ]


def _quotes(text: str, line: str) -> bool:
    return any(line in normalise_line(one).casefold() for one in text.splitlines())


@dataclass(frozen=True, slots=True)
class WhyFailed:
    """Finds what fixed a failure before, by what the command printed."""

    services: Services
    caller: Caller

    def __call__(self, text: str, *, max_tokens: int = _ASKED_TOKENS) -> KnownFix | None:
        """Return the best memory of a failure; None if no error stands out, or none is known.

        Args:
            text: the output of the command; of a long one, both ends are read.
            max_tokens: how much of the memory is returned.

        Raises:
            UnavailableError: the store cannot be read.

        """
        failure = read_failure(text)
        if failure is None:
            return None
        return RecallForFailure(self.services, self.caller).best(failure, max_tokens=max_tokens)
