"""Get: memories by id, or a skill by name, whole, with a banner when they no longer hold."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from commonbrain.ingestion.skills import named
from commonbrain.invalidation.reviews import Dependent, dependents, notice
from commonbrain.model import ids, limits
from commonbrain.model.conflicts import Conflict
from commonbrain.model.errors import NotFound, Refused, one_of
from commonbrain.model.kinds import Kind
from commonbrain.model.memory import ERASED, Memory, State
from commonbrain.model.query import Filter, Mark, Use
from commonbrain.model.revision import shown_detail
from commonbrain.model.scope import Caller, Scope, is_visible
from commonbrain.model.trust import Trust
from commonbrain.retrieval.banner import FORGOTTEN, banner
from commonbrain.retrieval.conflicts import disputes
from commonbrain.retrieval.provenance import Provenance, provenance
from commonbrain.retrieval.views import (
    Edge,
    Event,
    Noted,
    Standing,
    View,
    edges,
    history,
    later,
    noted,
    standing,
)
from commonbrain.services import House
from commonbrain.storage.change_log import version_of
from commonbrain.storage.interface import Look, Transaction
from commonbrain.storage.records import Access


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
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
    history: tuple[Event, ...] | None = None
    """This and the views below are None unless they were asked for."""
    provenance: Provenance | None = None
    links: tuple[Edge, ...] | None = None
    annotations: tuple[Noted, ...] | None = None
    policy: Standing | None = None
    dependents: tuple[Dependent, ...] | None = None
    """What rests on it and would need review if it fell, the nearest first."""
    namesakes: tuple[str, ...] | None = None
    """Ids of other skills that have the name by which this one was fetched."""


@dataclass(frozen=True, slots=True)
class Get:
    """Fetching for one caller."""

    house: House
    caller: Caller

    def __call__(
        self,
        id: str = "",  # noqa: A002 the public name is id
        *,
        skill: str = "",
        views: Sequence[View | str] = (),
        bump: bool = True,
    ) -> Shown:
        """Fetch one memory by id, in whatever state it is, or the current skill of a name.

        Args:
            id: of the memory; left out for a skill.
            skill: the name of its trigger; of several the caller's project's, then one of all
                projects, the newest; `namesakes` names the others.
            views: what else to show: history, provenance, links, annotations, policy,
                dependents.
            bump: whether to count it as an access, which revives what fades.

        Raises:
            Invalid: the text is not an id, or a view is none.
            NotFound: there is none, or the caller may not see it.
            Unavailable: the store cannot be read.

        """
        found, others = self._skill(skill.strip()) if skill else (id, None)
        [shown] = self.several([found], views=views, bump=bump)
        return replace(shown, namesakes=others)

    def several(
        self, ids_: Sequence[str], *, views: Sequence[View | str] = (), bump: bool = True
    ) -> tuple[Shown, ...]:
        """Fetch several memories by id, in the order given, each once.

        Raises:
            Invalid: a text is not an id, or a view is none.
            NotFound: one of them is not there, or the caller may not see it.
            Refused: `limit_exceeded`, more than 20 at once.
            Unavailable: the store cannot be read.

        """
        wanted = list(dict.fromkeys(ids.parse(ids.MEMORY, id_) for id_ in ids_))
        if len(wanted) > limits.IDS_PER_GET_MAX:
            raise Refused(
                f"{len(wanted)} ids; {limits.IDS_PER_GET_MAX} are allowed.",
                code="limit_exceeded",
                hint="Fetch them in several calls.",
            )
        chosen = frozenset(one_of(View, view) for view in views)
        shown = self.house.store.read(
            self.caller.tenant,
            lambda tx: tuple(self._show(tx, id_, views=chosen) for id_ in wanted),
        )
        if bump:
            access = Access(tenant=self.caller.tenant, ids=tuple(wanted), at=self.house.clock.now())
            self.house.journal.touch(access)
            use = Use.by(self.caller, wanted, mark=Mark.USED, at=access.at)
            self.house.journal.use(replace(use, is_fetch=True))
        return shown

    def _show(self, tx: Transaction, id_: int, *, views: frozenset[View]) -> Shown:
        memory, now = fetch(tx, self.caller, id_=id_), self.house.clock.now()
        is_forgotten = memory.state is State.FORGOTTEN
        sides: Mapping[View, Callable[[], object]] = {
            View.HISTORY: lambda: history(tx, self.caller, memory=memory),
            View.PROVENANCE: lambda: provenance(tx, self.caller, memory=memory, now=now),
            View.LINKS: lambda: () if is_forgotten else edges(tx, self.caller, memory=memory),
            View.ANNOTATIONS: lambda: () if is_forgotten else noted(tx, memory=memory),
            View.POLICY: lambda: standing(tx, memory=memory, now=now),
            View.DEPENDENTS: lambda: dependents(tx, self.caller, id_=id_, now=now),
        }
        asked: dict[str, Any] = {view: side() for view, side in sides.items() if view in views}
        version = version_of(tx, memory.id)
        shown = _shown(memory, head_of(tx, memory), version=version, now=now)
        told = shown.banner or notice(tx, self.caller, id_=id_, now=now)
        against = disputes(tx, self.caller, memory=memory, now=now) or None
        return replace(shown, banner=told, conflicts=against, **asked)

    def _skill(self, name: str) -> tuple[str, tuple[str, ...] | None]:
        """Find the current skill of a name, and the others that have it.

        Raises:
            NotFound: there is none, or the caller may not see it.

        """
        look = Look(caller=self.caller, filter=Filter(), now=self.house.clock.now())
        found = self.house.store.read(
            self.caller.tenant,
            lambda tx: named(tx, look, name=name, project=self.caller.project),
        )
        if not found:
            raise NotFound(f"No skill {name[:40]!r}.", hint="Recall by its words, or by its name.")
        first, *others = (ids.show(ids.MEMORY, one.id) for one in found)
        return first, tuple(others) or None


def fetch(tx: Transaction, caller: Caller, *, id_: int) -> Memory:
    """Fetch a memory that the caller may see.

    Raises:
        NotFound: there is none, or the caller may not see it; the two look the same.

    """
    memory = tx.memories.get([id_]).get(id_)
    if memory is None or not is_visible(caller, memory):
        raise NotFound(
            f"No memory {ids.show(ids.MEMORY, id_)}.",
            hint="Recall by its words, or check the id.",
        )
    return memory


def head_of(tx: Transaction, memory: Memory) -> Memory:
    """Follow a revision chain to the memory that holds now."""
    *_, head = (memory, *later(tx, memory))
    return head


def _shown(memory: Memory, head: Memory, *, version: int, now: datetime) -> Shown:
    is_forgotten = memory.state is State.FORGOTTEN
    erased_or_forgotten = ERASED if memory.headline == ERASED else FORGOTTEN
    return Shown(
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
