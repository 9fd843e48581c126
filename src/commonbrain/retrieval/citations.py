"""Cited code in the working tree of the caller: whether it is as it was when it was cited.

A server sees no files of its callers, and shows citations as they were given.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Self

from commonbrain.model.citations import (
    CHECKOUT,
    CITATIONS,
    CheckedCitation,
    Citation,
    CitationStatus,
    CodePlace,
    Fingerprint,
    citing_topic,
    read_checkout,
    read_citations,
    stored_citations,
)
from commonbrain.model.kinds import Kind
from commonbrain.model.recall_result import Order
from commonbrain.model.timestamps import to_millis
from commonbrain.model.values import dataclass, field, replace
from commonbrain.retrieval.order import assign_scores, is_persons_blocker
from commonbrain.text.code_regions import DISTINCT_FROM, SourceText, similarity, tokens_of
from commonbrain.working_tree import WorkingTree

if TYPE_CHECKING:
    from commonbrain.model.citations import Checkout
    from commonbrain.model.memory import Memory
    from commonbrain.model.paging import Key
    from commonbrain.model.query import Candidate
    from commonbrain.model.scope import Caller
    from commonbrain.retrieval.table import Table
    from commonbrain.storage.interface import QueryScope
    from commonbrain.storage.store import Transaction

_SEARCH_S: Final = 0.1
"""What all citations of a recall may take: to look for code in a thousand other files."""
_REVIEW_S: Final = 0.5
"""What those of a page of the review queue may take; a person waits for it."""
_REVIEWED_MAX: Final = 10_000
"""Memories of a repository that pages of the review queue reach, the newest."""
_READ_AT_ONCE: Final = 50
"""Memories that are read before the time is looked at again."""
_SAME_SYMBOL_AT: Final = 0.4
"""Share of tokens from which a definition of the same name elsewhere is the same, changed."""
_COPIED_FROM: Final = 12
"""Tokens from which code of another file is taken for moved while its own file is still there."""


@dataclass(frozen=True, slots=True)
class CitedCode:
    """Looks for cited code in a working tree."""

    tree: WorkingTree
    _sources: dict[str, SourceText | None] = field(default_factory=dict[str, "SourceText | None"])

    def check(self, citation: Citation, *, at: Checkout) -> CheckedCitation:
        """Say what became of cited code; `at` is where the memory was written."""
        place, seen = citation.place, citation.seen
        if seen is None or self.tree.is_late:
            return CheckedCitation(place=str(place))
        source = self._source(place.path)
        # The place of then costs least, and is right in most cases.
        if source is not None and source.has_at(seen, seen.line, lines=seen.lines):
            return CheckedCitation(place=str(place), status=CitationStatus.SAME)
        here = self._in(place.path, place, seen=seen)
        match = here or self._elsewhere(place, seen)
        if match is not None:
            return match
        if self.tree.is_partial:
            return CheckedCitation(place=str(place))
        status = CitationStatus.MISSING if self._is_of_here(at) else CitationStatus.ABSENT
        return CheckedCitation(place=str(place), status=status)

    def _in(self, path: str, place: CodePlace, *, seen: Fingerprint) -> CheckedCitation | None:
        """Find the code in a file; None if it is not there."""
        source = self._source(path)
        if source is None:
            return None
        if place.symbol is not None:
            return self._symbol_in(path, source, place=place, seen=seen)
        is_copied = path != place.path and self.tree.read(place.path) is not None
        match = source.find(seen, distinct_from=_COPIED_FROM if is_copied else DISTINCT_FROM)
        if match is not None:
            return self._unchanged(path, match, place=place, seen=seen)
        changed = source.find_changed(seen) if path == place.path else None
        return None if changed is None else self._changed(path, changed, place=place)

    def _symbol_in(
        self, path: str, source: SourceText, *, place: CodePlace, seen: Fingerprint
    ) -> CheckedCitation | None:
        defined = list(source.definitions(place.symbol or ""))
        for region in defined:
            if source.has_at(seen, region.line, lines=region.lines):
                return self._unchanged(path, region.line, place=place, seen=seen)
        likeness = {one.line: similarity(seen, tokens_of(source.cut(one))) for one in defined}
        line = max(likeness, key=lambda at: likeness[at], default=None)
        if path == place.path:
            # A symbol of the same name is this one, unless there are several.
            is_it = len(defined) == 1 or (line and likeness[line] >= _SAME_SYMBOL_AT)
            line = line if is_it else source.find_changed(seen)
        elif line and likeness[line] < _SAME_SYMBOL_AT:
            line = None
        return None if line is None else self._changed(path, line, place=place)

    def _elsewhere(self, place: CodePlace, seen: Fingerprint) -> CheckedCitation | None:
        """Find the code in other files: unchanged in any of them, or changed in one."""
        changed: CheckedCitation | None = None
        # Lines of a file that is still there are looked for only in one of its name.
        has_name = place.symbol is None and self._source(place.path) is not None
        for path in self.tree.others(place.path, has_name=has_name):
            match = self._in(path, place, seen=seen)
            if match is not None and match.status is CitationStatus.MOVED:
                return match
            changed = changed or match
        return changed

    def _source(self, path: str) -> SourceText | None:
        if path not in self._sources:
            text = self.tree.read(path)
            is_python = path.endswith((".py", ".pyi"))
            self._sources[path] = (text and SourceText(text, is_python=is_python)) or None
        return self._sources[path]

    def _unchanged(
        self, path: str, line: int, *, place: CodePlace, seen: Fingerprint
    ) -> CheckedCitation:
        if path == place.path and line == seen.line:
            return CheckedCitation(place=str(place), status=CitationStatus.SAME)
        status = CitationStatus.MOVED
        return CheckedCitation(place=str(place), status=status, now_at=f"{path}:{line}")

    def _changed(self, path: str, line: int, *, place: CodePlace) -> CheckedCitation:
        now_at = None if path == place.path and line == place.line else f"{path}:{line}"
        return CheckedCitation(place=str(place), status=CitationStatus.CHANGED, now_at=now_at)

    def _is_of_here(self, at: Checkout) -> bool:
        """Return whether code that is missing was once on the branch that is checked out.

        On another branch it may not exist yet, and nothing is wrong with the memory.
        """
        repository = self.tree.repository
        branch = repository.branch
        if at.branch is None or at.branch == branch:
            return True
        return branch == repository.default_branch and not repository.has_branch(at.branch)


def check_citations(table: Table, *, asks_git: bool) -> None:
    """Say of the first candidates what became of the code that they cite.

    For a question, those whose code is gone come last of the first; rules of people that bind stay
    where they are. Git is not asked while a prompt waits for the reply.
    """
    count = table.plan.budget.max_items
    first = table.ranked[:count]
    checked = check_each(first, table.plan.caller, asks_git=asks_git)
    last = [one for one in checked if are_missing(one.cites) and not is_persons_blocker(one.memory)]
    if last and table.plan.query and table.plan.budget.order is Order.RELEVANCE:
        checked = assign_scores([*(one for one in checked if one not in last), *last], first)
    table.ranked = [*checked, *table.ranked[count:]]


def check_each(
    candidates: Sequence[Candidate], caller: Caller, *, asks_git: bool = False
) -> list[Candidate]:
    """Say of each candidate what became of the code that it cites."""
    if not any({CITATIONS, CHECKOUT} & one.memory.payload.keys() for one in candidates):
        return list(candidates)
    checks = _Checks.of(caller, asks_git=asks_git)
    return [checks.describe(one) for one in candidates]


def check_cited(
    memories: Sequence[Memory], caller: Caller
) -> Mapping[int, tuple[CheckedCitation, ...]]:
    """Map memories that cite code to what became of it; others are absent."""
    citing = [one for one in memories if CITATIONS in one.payload]
    checks = _Checks.of(caller) if citing else None
    return {one.id: checks.cites(one) for one in citing} if checks else {}


def are_missing(cites: Sequence[CheckedCitation]) -> bool:
    """Return whether a memory cites code, of which nothing is left."""
    return bool(cites) and all(one.status is CitationStatus.MISSING for one in cites)


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingCode:
    """The memories whose cited code is gone, with the places that they cite."""

    places: Mapping[Key, tuple[str, ...]]
    """By time of occurrence in milliseconds and id."""
    checked_to: Key | None = None
    """The key of the last memory that was checked; None if all were."""


def find_missing_code(tx: Transaction, scope: QueryScope, *, after: Key | None) -> MissingCode:
    """Check the memories in scope that cite the repository of the caller, the latest first.

    Those whose key is not below `after` are left out. At least one memory is checked.
    """
    checks = _Checks.of(scope.caller, search_s=_REVIEW_S)
    if checks.code is None:
        return MissingCode(places={})
    topics = [citing_topic(checks.code.tree.repository.name)]
    cited = tx.memories.with_topics(topics, scope, limit=_REVIEWED_MAX)
    places: dict[Key, tuple[str, ...]] = {}
    checked_to: Key | None = None
    for memory in _read_each(tx, cited):
        key = (to_millis(memory.occurred_at), memory.id)
        if after is not None and key >= after:
            continue
        cites = checks.cites(memory)
        is_missing = are_missing(cites)
        # Without an answer, the next page checks it, unless it takes too long by itself.
        if checked_to is not None and checks.code.tree.is_late and not is_missing:
            return MissingCode(places=places, checked_to=checked_to)
        if is_missing:
            places[key] = tuple(one.place for one in cites)
        checked_to = key
    return MissingCode(places=places)


def _read_each(tx: Transaction, ids_: Sequence[int]) -> Iterator[Memory]:
    for at in range(0, len(ids_), _READ_AT_ONCE):
        part = ids_[at : at + _READ_AT_ONCE]
        memories = tx.memories.get(part)
        yield from (memories[id_] for id_ in part)


def missing_places(memories: Sequence[Memory], caller: Caller) -> Mapping[int, list[str]]:
    """Map memories that cite code to the places whose code is gone from their repository.

    Git is asked, which takes too long inside a transaction that writes.
    """
    return {
        id_: [one.place for one in cites if one.status is CitationStatus.MISSING]
        for id_, cites in check_cited(memories, caller).items()
    }


def without_places(memory: Memory, places: Collection[str]) -> Memory:
    """Return a memory without its citations of these places."""
    if not places:
        return memory
    left = [one for one in read_citations(memory.payload) if str(one.place) not in places]
    return replace(memory, payload={**memory.payload, CITATIONS: stored_citations(left)})


@dataclass(frozen=True, slots=True)
class _Checks:
    """Checks memories in the working tree of a caller, if there is one."""

    code: CitedCode | None
    asks_git: bool = True

    @classmethod
    def of(cls, caller: Caller, *, asks_git: bool = True, search_s: float = _SEARCH_S) -> Self:
        """Check in the working tree of a caller."""
        tree = WorkingTree.above(caller.local_folder, search_s=search_s)
        return cls(tree and CitedCode(tree), asks_git=asks_git)

    def describe(self, candidate: Candidate) -> Candidate:
        """Add the citations of a candidate and the branch that it is from."""
        memory = candidate.memory
        at = read_checkout(memory.payload)
        is_here = self._is_here(at)
        cites = self.cites(memory)
        notes = candidate.notes
        is_found = any(one.status in _HERE for one in cites)
        # What is to be done does not depend on a branch.
        is_learnt = memory.kind is not Kind.RULE and not is_found
        if is_here and at.branch and is_learnt and self._is_unmerged(at.branch):
            notes = (*notes, f"on branch {at.branch}, not merged")
        if cites or notes != candidate.notes:
            return replace(candidate, cites=cites, notes=notes)
        return candidate

    def cites(self, memory: Memory) -> tuple[CheckedCitation, ...]:
        """Say what became of the code that a memory cites."""
        at = read_checkout(memory.payload)
        code = self.code if self._is_here(at) else None
        citations = read_citations(memory.payload)
        if code is None:
            return tuple(CheckedCitation(place=str(one.place)) for one in citations)
        checked = tuple(code.check(one, at=at) for one in citations)
        missing = [one for one in checked if one.status is CitationStatus.MISSING]
        paths = [one.place.path for one in citations]
        if not missing or not self.asks_git or code.tree.knows(at.commit, paths):
            return checked
        return tuple(CheckedCitation(place=one.place) if one in missing else one for one in checked)

    def _is_here(self, at: Checkout) -> bool:
        return self.code is not None and at.repository == self.code.tree.repository.name

    def _is_unmerged(self, branch: str) -> bool:
        return self.asks_git and self.code is not None and self.code.tree.is_unmerged(branch)


_HERE: Final = frozenset({CitationStatus.SAME, CitationStatus.MOVED, CitationStatus.CHANGED})
"""What code may have become that has arrived on this branch, however it was merged."""
