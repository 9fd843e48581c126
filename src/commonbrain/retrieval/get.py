"""Get: memories by id, or a skill by name, whole, with a banner when they no longer hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from commonbrain.ingestion.skills import skill_named
from commonbrain.invalidation.reviews import Dependent, dependents, review_notice
from commonbrain.model import ids, limits
from commonbrain.model.conflicts import Conflict
from commonbrain.model.errors import NotFoundError, RejectedError, parse_choice
from commonbrain.model.kinds import Kind
from commonbrain.model.memory import ERASED, Memory, State
from commonbrain.model.query import FeedbackEvent, FeedbackMark, Filter
from commonbrain.model.revision import shown_detail
from commonbrain.model.scope import Caller, Scope, is_visible
from commonbrain.model.trust import Trust
from commonbrain.retrieval.banner import FORGOTTEN, banner
from commonbrain.retrieval.conflicts import find_conflicts
from commonbrain.retrieval.provenance import Provenance, provenance
from commonbrain.retrieval.views import (
    AccessStatus,
    AnnotationView,
    ChangeEvent,
    LinkView,
    View,
    access_status,
    edges,
    history,
    noted,
    successors,
)
from commonbrain.services import Services
from commonbrain.storage.change_log import version_of
from commonbrain.storage.interface import MemoryAccess, QueryScope

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryView:
    """One memory as it is stored; `banner` says when it no longer holds, and what does."""

    id: str
    kind: Kind
    state: State
    headline: str
    body: str | None
    banner: str | None
    current_id: str
    """The head of its revision chain: itself when it is current."""
    label: str | None
    project: str | None
    scope: Scope
    agent: str
    session: str | None
    trust: Trust
    confidence: float
    salience: float
    rating: int
    tags: tuple[str, ...]
    source_ref: str | None
    occurred_at: datetime
    recorded_at: datetime
    superseded_count: int
    version: int
    """How often it was changed, its birth the first; a change may say which it rests on."""
    detail: Mapping[str, object]
    conflicts: tuple[Conflict, ...] | None = None
    """What disagrees with it and holds; None where nothing does."""
    history: tuple[ChangeEvent, ...] | None = None
    """This and the views below are None unless they were asked for."""
    provenance: Provenance | None = None
    links: tuple[LinkView, ...] | None = None
    annotations: tuple[AnnotationView, ...] | None = None
    policy: AccessStatus | None = None
    dependents: tuple[Dependent, ...] | None = None
    """What rests on it and would need review if it fell, the nearest first."""
    namesakes: tuple[str, ...] | None = None
    """Ids of other skills that have the name by which this one was fetched."""


@dataclass(frozen=True, slots=True)
class Get:
    """Fetching for one caller."""

    services: Services
    caller: Caller

    def __call__(
        self,
        id: str = "",  # noqa: A002 the public name is id
        *,
        skill: str = "",
        views: Sequence[View | str] = (),
        bump: bool = True,
    ) -> MemoryView:
        """Fetch one memory by id, in whatever state it is, or the current skill of a name.

        Args:
            id: of the memory; left out for a skill.
            skill: the name of its trigger; of several the caller's project's, then one of all
                projects, the newest; `namesakes` names the others.
            views: what else to show: history, provenance, links, annotations, policy,
                dependents.
            bump: whether to count it as an access, which revives what fades.

        Raises:
            InvalidInputError: the text is not an id, or a view is none.
            NotFoundError: there is none, or the caller may not see it.
            UnavailableError: the store cannot be read.

        """
        found, others = self._skill(skill.strip()) if skill else (id, None)
        [shown] = self.several([found], views=views, bump=bump)
        return replace(shown, namesakes=others)

    def several(
        self, ids_: Sequence[str], *, views: Sequence[View | str] = (), bump: bool = True
    ) -> tuple[MemoryView, ...]:
        """Fetch several memories by id, in the order given, each once.

        Raises:
            InvalidInputError: a text is not an id, or a view is none.
            NotFoundError: one of them is not there, or the caller may not see it.
            RejectedError: `limit_exceeded`, more than 20 at once.
            UnavailableError: the store cannot be read.

        """
        memory_ids = list(dict.fromkeys(ids.parse(ids.MEMORY, id_) for id_ in ids_))
        if len(memory_ids) > limits.IDS_PER_GET_MAX:
            raise RejectedError(
                f"{len(memory_ids)} ids; {limits.IDS_PER_GET_MAX} are allowed.",
                code="limit_exceeded",
                hint="Fetch them in several calls.",
            )
        chosen = frozenset(parse_choice(View, view) for view in views)
        shown = self.services.store.read(
            self.caller.tenant,
            lambda tx: tuple(self._show(tx, id_, views=chosen) for id_ in memory_ids),
        )
        if bump:
            access = MemoryAccess(
                tenant=self.caller.tenant, ids=tuple(memory_ids), at=self.services.clock.now()
            )
            self.services.journal.touch(access)
            use = FeedbackEvent.by(self.caller, memory_ids, mark=FeedbackMark.USED, at=access.at)
            self.services.journal.use(replace(use, is_fetch=True))
        return shown

    def _show(self, tx: Transaction, id_: int, *, views: frozenset[View]) -> MemoryView:
        memory, now = fetch(tx, self.caller, id_=id_), self.services.clock.now()
        is_forgotten = memory.state is State.FORGOTTEN
        loaders: Mapping[View, Callable[[], object]] = {
            View.HISTORY: lambda: history(tx, self.caller, memory=memory),
            View.PROVENANCE: lambda: provenance(tx, self.caller, memory=memory, now=now),
            View.LINKS: lambda: () if is_forgotten else edges(tx, self.caller, memory=memory),
            View.ANNOTATIONS: lambda: () if is_forgotten else noted(tx, memory=memory),
            View.POLICY: lambda: access_status(tx, memory=memory, now=now),
            View.DEPENDENTS: lambda: dependents(tx, self.caller, id_=id_, now=now),
        }
        asked: dict[str, Any] = {view: side() for view, side in loaders.items() if view in views}
        version = version_of(tx, memory.id)
        shown = _shown(memory, head_of(tx, memory), version=version, now=now)
        banner_text = shown.banner or review_notice(tx, self.caller, id_=id_, now=now)
        against = find_conflicts(tx, self.caller, memory=memory, now=now) or None
        return replace(shown, banner=banner_text, conflicts=against, **asked)

    def _skill(self, name: str) -> tuple[str, tuple[str, ...] | None]:
        """Find the current skill of a name, and the others that have it.

        Raises:
            NotFoundError: there is none, or the caller may not see it.

        """
        query_scope = QueryScope(caller=self.caller, filter=Filter(), now=self.services.clock.now())
        found = self.services.store.read(
            self.caller.tenant,
            lambda tx: skill_named(tx, query_scope, name=name, project=self.caller.project),
        )
        if not found:
            raise NotFoundError(
                f"No skill {name[:40]!r}.", hint="Recall by its words, or by its name."
            )
        first, *others = (ids.show(ids.MEMORY, one.id) for one in found)
        return first, tuple(others) or None


def fetch(tx: Transaction, caller: Caller, *, id_: int) -> Memory:
    """Fetch a memory that the caller may see.

    Raises:
        NotFoundError: there is none, or the caller may not see it; the two look the same.

    """
    memory = tx.memories.get([id_]).get(id_)
    if memory is None or not is_visible(caller, memory):
        raise NotFoundError(
            f"No memory {ids.show(ids.MEMORY, id_)}.",
            hint="Recall by its words, or check the id.",
        )
    return memory


def head_of(tx: Transaction, memory: Memory) -> Memory:
    """Follow a revision chain to the memory that holds now."""
    *_, head = (memory, *successors(tx, memory))
    return head


def _shown(memory: Memory, head: Memory, *, version: int, now: datetime) -> MemoryView:
    is_forgotten = memory.state is State.FORGOTTEN
    erased_or_forgotten = ERASED if memory.headline == ERASED else FORGOTTEN
    return MemoryView(
        id=ids.show(ids.MEMORY, memory.id),
        kind=memory.kind,
        state=memory.state,
        headline=erased_or_forgotten if is_forgotten else memory.headline,
        body=None if is_forgotten else memory.body,
        banner=banner(memory, head, now=now),
        current_id=ids.show(ids.MEMORY, head.id),
        label=memory.label,
        project=memory.project,
        scope=memory.scope,
        agent=memory.agent,
        session=memory.session,
        trust=memory.trust,
        confidence=memory.confidence,
        salience=memory.salience,
        rating=memory.rating,
        tags=() if is_forgotten else memory.tags,
        source_ref=memory.source_ref,
        occurred_at=memory.occurred_at,
        recorded_at=memory.recorded_at,
        superseded_count=memory.superseded_count,
        version=version,
        detail={} if is_forgotten else shown_detail(memory),
    )
