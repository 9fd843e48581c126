"""Get: whole memories by id, or a skill by name, with a banner if they are not current."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from commonbrain.invalidation.dependents import Dependent, dependents, open_reviews, review_notice
from commonbrain.model import ids, limits
from commonbrain.model.citations import CheckedCitation
from commonbrain.model.errors import InvalidInputError, NotFoundError, RejectedError, parse_choice
from commonbrain.model.kinds import KINDS, Kind
from commonbrain.model.links import Conflict, LinkType
from commonbrain.model.memory import (
    CURRENT_STATES,
    ERASED,
    IMPORTED,
    Memory,
    State,
    is_dormant,
    strength,
)
from commonbrain.model.parameters import Parameters
from commonbrain.model.query import FeedbackEvent, FeedbackMark, Filter, is_allowed
from commonbrain.model.revision import DEPRECATED, Action, Revision, shown_detail
from commonbrain.model.scope import Authority, Caller, Scope, Trust, is_visible
from commonbrain.model.timestamps import show_instant
from commonbrain.retrieval.citations import check_cited
from commonbrain.retrieval.conflicts import find_conflicts
from commonbrain.retrieval.provenance import FORGOTTEN, Provenance, provenance, seen
from commonbrain.retrieval.skills import skill_named
from commonbrain.retrieval.value_history import ChangeReader
from commonbrain.security.guard import note_shown
from commonbrain.services import Services
from commonbrain.storage.change_log import predecessors, successors
from commonbrain.storage.interface import MemoryAccess, QueryScope
from commonbrain.text.names import basis_of_names, name_terms, shared_names

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_BANNERS: Final[Mapping[State, str]] = {
    State.FORGOTTEN: "Forgotten: its text is not shown.",
    State.QUARANTINED: "Quarantined: it awaits review, is not binding and is not recalled.",
    State.CANDIDATE: "Candidate: proposed and not yet approved; it is not recalled.",
    State.EXPIRED: "Expired: it is no longer recalled.",
}


def banner(memory: Memory, head: Memory, *, now: datetime) -> str | None:
    """Explain why a memory is not current and what replaced it; None if it is current.

    `head` is the newest memory of its chain of revisions.
    """
    if memory.state is State.SUPERSEDED:
        is_binding = KINDS[memory.kind].is_binding
        superseded = f"{DEPRECATED}, superseded:" if is_binding else "Superseded:"
        return f"{superseded} {_successor(head)}"
    if memory.state is State.FORGOTTEN and memory.headline == ERASED:
        return "Erased: its text was removed from the store."
    if memory.state in _BANNERS:
        return _BANNERS[memory.state]
    if memory.expires_at is not None and memory.expires_at <= now:
        return f"Expired at {show_instant(memory.expires_at)}: it is no longer recalled."
    return None


def _successor(head: Memory) -> str:
    shown = ids.show(ids.MEMORY, head.id)
    if head.state is State.FORGOTTEN:
        done = "erased" if head.headline == ERASED else "forgotten"
        return f"by {shown}, which was {done} since."
    return f"{shown} holds now: {head.headline}"


LINKS_MAX: Final = 50
"""Links shown of one memory, strongest first."""
RELATED_MAX: Final = 10
"""Memories shown that name the same thing, surest first."""
_HITS_MAX: Final = 30
"""Memories compared; one search finds them."""
_TERMS_MAX: Final = 16
_COMMON_FROM: Final = 20
"""A name in this many of them says little."""
_COMMON_SHARE: Final = 0.5
"""What remains of the confidence of a common name."""


class View(StrEnum):
    """A part of a memory that is shown on request."""

    HISTORY = "history"
    PROVENANCE = "provenance"
    LINKS = "links"
    ANNOTATIONS = "annotations"
    POLICY = "policy"
    DEPENDENTS = "dependents"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEvent:
    """One change of a memory or of another revision of its chain."""

    id: str
    action: Action
    at: datetime
    agent: str
    session: str | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkView:
    """One link of a memory; `is_outgoing` if it leads from this memory to the other."""

    type: LinkType
    is_outgoing: bool
    id: str
    headline: str
    strength: float
    observations: int
    agent: str
    trust: Trust
    basis: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedView:
    """A current memory that names the same thing; computed, not linked."""

    id: str
    headline: str
    basis: str
    confidence: float
    """How surely both speak of the same thing, 0..1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationView:
    """One annotation, with the trust of its own author."""

    text: str
    agent: str
    trust: Trust
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessStatus:
    """Visibility and lifecycle of a memory."""

    scope: Scope
    seen_by: str
    state: State
    is_current: bool
    needs_review: bool
    strength: float
    dormant: bool
    pinned: bool
    expires_at: datetime | None
    access_count: int
    last_access_at: datetime | None


def history(tx: Transaction, caller: Caller, *, memory: Memory) -> tuple[ChangeEvent, ...]:
    """List the changes of all revisions that the caller may see, oldest first."""
    chain = [*predecessors(tx, memory), memory, *successors(tx, memory)]
    seen_by_id = {one.id: one for one in chain if is_visible(caller, one)}

    def place(change: Revision) -> tuple[datetime, int]:
        """Return when it happened, which a source may say to be long before its import."""
        since = seen_by_id[change.memory_id].believed_since or change.at
        at = min(change.at, since) if change.action is Action.CREATE else change.at
        return change.believed.until if change.believed else at, change.id

    return tuple(
        ChangeEvent(
            id=ids.show(ids.MEMORY, change.memory_id),
            action=change.action,
            at=place(change)[0],
            agent=change.agent,
            session=change.session,
            reason=change.reason,
        )
        for change in sorted(tx.changes.of(list(seen_by_id)), key=place)
    )


def edges(tx: Transaction, caller: Caller, *, memory: Memory) -> tuple[LinkView, ...]:
    """List the links to memories that the caller may see, strongest first."""
    links = tx.links.touching([memory.id], limit=LINKS_MAX)
    others = {link: link.to_id if link.from_id == memory.id else link.from_id for link in links}
    known = seen(tx, caller, memory_ids=list(others.values()))
    return tuple(
        LinkView(
            type=link.type,
            is_outgoing=link.from_id == memory.id,
            id=ids.show(ids.MEMORY, other),
            headline=known[other].headline if known[other].state is not State.FORGOTTEN else "",
            strength=link.strength,
            observations=link.observations,
            agent=link.agent,
            trust=link.trust,
            basis=link.basis,
        )
        for link, other in others.items()
        if other in known
    )


def related(
    tx: Transaction, caller: Caller, *, memory: Memory, now: datetime, trust_min: float
) -> tuple[RelatedView, ...]:
    """List the current memories of its project that name the same thing, surest first.

    A link per pair would have to be written, bounded and undone with every memory, and would show a
    reader what others may not see. One search finds them instead.
    """
    criteria = Filter(project=memory.project, trust_min=trust_min)
    terms = name_terms(memory.text)[:_TERMS_MAX]
    if not terms:
        return ()
    scope = QueryScope(caller=caller, filter=criteria, now=now)
    hits = tx.index.lexical(terms, scope, limit=_HITS_MAX + 1)
    shared = [
        (other, shared_names(memory.text, other.text))
        for id_, other in tx.memories.get([hit.id for hit in hits]).items()
        if id_ != memory.id and is_allowed(other, caller, criteria=criteria, now=now)
    ]
    uses = Counter(name.key for _, names in shared for name in names)
    views: list[RelatedView] = []
    for other, names in sorted(shared, key=lambda pair: -pair[0].id):
        confidence = max(
            (
                name.confidence * (_COMMON_SHARE if uses[name.key] >= _COMMON_FROM else 1.0)
                for name in names
            ),
            default=0.0,
        )
        if confidence > 0:
            views.append(
                RelatedView(
                    id=ids.show(ids.MEMORY, other.id),
                    headline=other.headline,
                    basis=basis_of_names(names),
                    confidence=confidence,
                )
            )
    views.sort(key=lambda view: -view.confidence)
    return tuple(
        replace(view, confidence=round(view.confidence, 2)) for view in views[:RELATED_MAX]
    )


def annotations_of(tx: Transaction, *, memory: Memory) -> tuple[AnnotationView, ...]:
    """List the annotations of a memory, oldest first."""
    return tuple(
        AnnotationView(text=one.text, agent=one.agent, trust=one.trust, at=one.at)
        for one in tx.annotations.of([memory.id]).get(memory.id, ())
    )


def access_status(
    tx: Transaction, *, memory: Memory, now: datetime, parameters: Parameters
) -> AccessStatus:
    """Return the visibility and lifecycle of a memory."""
    is_expired = memory.is_over(now)
    return AccessStatus(
        scope=memory.scope,
        seen_by=memory.agent if memory.scope is Scope.PRIVATE else "everyone in the tenant",
        state=memory.state,
        is_current=memory.state in CURRENT_STATES and not is_expired,
        needs_review=bool(open_reviews(tx, [memory.id], as_of=now)),
        strength=round(strength(memory, now, parameters=parameters), 4),
        dormant=is_dormant(memory, now, parameters=parameters),
        pinned=memory.pinned,
        expires_at=memory.expires_at,
        access_count=memory.access_count,
        last_access_at=memory.last_access_at,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryView:
    """One memory as stored; `banner` says if it is not current and what replaced it."""

    id: str
    kind: Kind
    state: State
    headline: str
    body: str | None
    banner: str | None
    current_id: str
    """Id of the newest revision; its own if it is current."""
    earlier: str | None = None
    """What it said before it was changed by plain remembering; None if that is unknown."""
    label: str | None
    project: str | None
    scope: Scope
    agent: str
    session: str | None
    trust: Trust
    authority: Authority
    """Who wrote it: person, model, captured or web; or the lowest of its sources."""
    confidence: float
    salience: float
    rating: int
    tags: tuple[str, ...]
    source_ref: str | None
    section: str | None = None
    """The titles above it, if it is a passage of a longer text."""
    occurred_at: datetime
    recorded_at: datetime
    superseded_count: int
    version: int
    """Number of changes, its creation included; a change may name the version it expects."""
    detail: Mapping[str, object]
    cites: tuple[CheckedCitation, ...] = ()
    """The code that it cites, and what became of it in the working tree of the caller."""
    attachment: Mapping[str, object] | None = None
    """The JSON object that its author stored with the text; a revision inherits it."""
    conflicts: tuple[Conflict, ...] | None = None
    """Current memories that disagree with it; None if there are none."""
    history: tuple[ChangeEvent, ...] | None = None
    """This view and those below are None unless requested."""
    provenance: Provenance | None = None
    links: tuple[LinkView, ...] | None = None
    related: tuple[RelatedView, ...] | None = None
    """Memories that name the same thing; shown with links."""
    annotations: tuple[AnnotationView, ...] | None = None
    policy: AccessStatus | None = None
    dependents: tuple[Dependent, ...] | None = None
    """Memories that depend on it and would need review if it became invalid, nearest first."""
    namesakes: tuple[str, ...] | None = None
    """Ids of other skills with the same name, or of other memories from the same source."""


@dataclass(frozen=True, slots=True)
class Get:
    """Fetches memories for one caller."""

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
        """Fetch one memory by id or source, in any state, or the current skill with a name.

        Args:
            id: the memory's id, or its exact `source_ref`; of several memories from one source,
                one of the highest authority is returned, if possible a current one, and
                `namesakes` lists the others. Omit it for a skill.
            skill: the skill's name. If several have it, the newest of the caller's project is
                returned, or else the newest without a project; `namesakes` lists the others.
            views: parts to add: history, provenance, links, annotations, policy, dependents.
            bump: whether this counts as an access, which restores strength.

        Raises:
            InvalidInputError: the id is malformed, or a view is unknown.
            NotFoundError: there is no such memory, or the caller may not see it.
            UnavailableError: the store cannot be read.

        """
        chosen, others = self._skill(skill.strip()) if skill else (id, None)
        [shown] = self.several([chosen], views=views, bump=bump)
        return replace(shown, namesakes=others) if others else shown

    def several(
        self, ids_: Sequence[str], *, views: Sequence[View | str] = (), bump: bool = True
    ) -> tuple[MemoryView, ...]:
        """Fetch several memories by id or `source_ref`, in the given order, each once.

        Raises:
            InvalidInputError: an id is malformed, or a view is unknown.
            NotFoundError: one does not exist, or the caller may not see it; none is returned.
            RejectedError: `limit_exceeded`, more than 20 at once.
            UnavailableError: the store cannot be read.

        """
        names = list(dict.fromkeys(ids_))
        if len(names) > limits.IDS_PER_GET_MAX:
            raise RejectedError(
                f"{len(names)} ids; {limits.IDS_PER_GET_MAX} are allowed.",
                code="limit_exceeded",
                hint="Fetch them in several calls.",
            )
        chosen = frozenset(parse_choice(View, view) for view in views)
        shown = self.services.store.read(
            self.caller.tenant, lambda tx: tuple(self._read(tx, names, views=chosen))
        )
        memory_ids = [ids.parse(ids.MEMORY, one.id) for one in shown]
        if bump:
            access = MemoryAccess(
                tenant=self.caller.tenant, ids=tuple(memory_ids), at=self.services.clock.now()
            )
            self.services.journal.touch(access)
            use = FeedbackEvent.by(self.caller, memory_ids, mark=FeedbackMark.USED, at=access.at)
            self.services.journal.use(replace(use, is_fetch=True))
        return shown

    def _read(
        self, tx: Transaction, names: Sequence[str], *, views: frozenset[View]
    ) -> Iterator[MemoryView]:
        """Read all memories at once: one by one, each takes a dozen queries."""
        now = self.services.clock.now()
        resolved = dict(resolve(tx, self.caller, name=name) for name in names)
        memory_ids = list(resolved)
        memories = fetch_all(tx, self.caller, ids_=memory_ids)
        versions = tx.changes.versions(memory_ids)
        heads = {one.id: head_of(tx, one) for one in memories}
        banners = {one.id: banner(one, heads[one.id], now=now) for one in memories}
        reviews = open_reviews(tx, memory_ids, as_of=now)
        against = find_conflicts(tx, self.caller, memories=memories, reviews=reviews, now=now)
        current = [one for one in memories if banners[one.id] is None]
        criteria = Filter(trust_min=0.0)
        reader = ChangeReader(tx=tx, caller=self.caller, now=now, criteria=criteria)
        changes, earlier = reader.successors(current), reader.histories(current)
        readable = [one for one in memories if one.state is not State.FORGOTTEN]
        cites = check_cited(readable, self.caller)
        for one in memories:
            if one.state is State.SUPERSEDED:
                note_shown([heads[one.id].id])
            notice = banners[one.id]
            if notice is None:
                changed = changes.get(one.id)
                if changed:
                    note_shown([changed.newer.id, changed.head.id])
                needs = reviews.get(one.id, ())
                notices = (
                    f"Earlier: {changed.line()}" if changed else None,
                    review_notice(tx, self.caller, id_=one.id, needs=needs, now=now),
                )
                notice = " ".join(filter(None, notices)) or None
            yield replace(
                _shown(one, heads[one.id], version=versions.get(one.id, 0)),
                banner=notice,
                conflicts=against.get(one.id),
                earlier=earlier.get(one.id),
                cites=cites.get(one.id, ()),
                namesakes=resolved[one.id],
                **self._requested(tx, one, views=views, now=now),
            )

    def _requested(
        self, tx: Transaction, memory: Memory, *, views: frozenset[View], now: datetime
    ) -> dict[str, Any]:
        """Return the views of a memory that were requested, by field."""
        if not views:
            return {}
        is_forgotten = memory.state is State.FORGOTTEN
        parameters = self.services.parameters_for(self.caller)
        loaders: Mapping[View, Callable[[], object]] = {
            View.HISTORY: lambda: history(tx, self.caller, memory=memory),
            View.PROVENANCE: lambda: provenance(tx, self.caller, memory=memory, now=now),
            View.LINKS: lambda: () if is_forgotten else edges(tx, self.caller, memory=memory),
            View.ANNOTATIONS: lambda: () if is_forgotten else annotations_of(tx, memory=memory),
            View.POLICY: lambda: access_status(tx, memory=memory, now=now, parameters=parameters),
            View.DEPENDENTS: lambda: dependents(tx, self.caller, id_=memory.id, now=now),
        }
        requested: dict[str, Any] = {
            view: side() for view, side in loaders.items() if view in views
        }
        if View.LINKS in views and not is_forgotten:
            requested["related"] = related(
                tx, self.caller, memory=memory, now=now, trust_min=parameters.trust_min
            )
        return requested

    def _skill(self, name: str) -> tuple[str, tuple[str, ...] | None]:
        """Return the id of the current skill with a name, and those of its namesakes.

        Raises:
            NotFoundError: there is no such skill, or the caller may not see it.

        """
        query_scope = QueryScope(caller=self.caller, filter=Filter(), now=self.services.clock.now())
        rules = self.services.store.read(
            self.caller.tenant,
            lambda tx: skill_named(tx, query_scope, name=name, project=self.caller.project),
        )
        if not rules:
            raise NotFoundError(f"No skill {name[:40]!r}.", hint="Search for it with recall.")
        first, *others = (ids.show(ids.MEMORY, one.id) for one in rules)
        return first, tuple(others) or None


def resolve(tx: Transaction, caller: Caller, *, name: str) -> tuple[int, tuple[str, ...] | None]:
    """Return the memory with an id or `source_ref`, and the others from that source.

    Those of the highest authority come first, of these the imported ones, so that no model takes
    the place of an old id; then the current ones, and the oldest, the first part of a long text.

    Raises:
        InvalidInputError: it is neither an id nor the source of a memory that the caller sees.
        NotFoundError: the caller sees no memory from a place in a source, such as `notes#3`.

    """
    try:
        return ids.parse(ids.MEMORY, name), None
    except InvalidInputError as error:
        place = str(name).strip()
        # Half a surrogate pair or a NUL is in no stored text, and no engine takes it.
        known_ids = (
            tx.listing.with_source(place, viewer=caller.agent) if place.isprintable() else []
        )
        known = tx.memories.get(known_ids).values()
        seen_ones = [one for one in known if is_visible(caller, one)]
        seen_ones.sort(key=_place)
        if not seen_ones and "#" not in place:
            raise
        if not seen_ones:
            raise NotFoundError(
                f"No memory from {place[:80]!r}.", hint="Search for its text with recall."
            ) from error
    first, *others = seen_ones
    return first.id, tuple(ids.show(ids.MEMORY, one.id) for one in others) or None


def _place(memory: Memory) -> tuple[int, bool, bool]:
    is_imported, is_current = IMPORTED in memory.payload, memory.state in CURRENT_STATES
    return memory.authority.rank, not is_imported, not is_current


def fetch(tx: Transaction, caller: Caller, *, id_: int) -> Memory:
    """Fetch a memory that the caller may see.

    Raises:
        NotFoundError: there is no such memory, or the caller may not see it; the error is the
            same.

    """
    [memory] = fetch_all(tx, caller, ids_=[id_])
    return memory


def fetch_all(tx: Transaction, caller: Caller, *, ids_: Sequence[int]) -> list[Memory]:
    """Fetch memories in the given order.

    Raises:
        NotFoundError: as that of `fetch`, for the first that is not there.

    """
    known = tx.memories.get(ids_)
    for id_ in ids_:
        if id_ not in known or not is_visible(caller, known[id_]):
            raise NotFoundError(
                f"No memory {ids.show(ids.MEMORY, id_)}.",
                hint="Check the id, or search with recall.",
            )
    return [known[id_] for id_ in ids_]


def head_of(tx: Transaction, memory: Memory) -> Memory:
    """Return the newest revision of a memory's chain."""
    *_, head = (memory, *successors(tx, memory))
    return head


def _shown(memory: Memory, head: Memory, *, version: int) -> MemoryView:
    is_forgotten = memory.state is State.FORGOTTEN
    erased_or_forgotten = ERASED if memory.headline == ERASED else FORGOTTEN
    return MemoryView(
        id=ids.show(ids.MEMORY, memory.id),
        kind=memory.kind,
        state=memory.state,
        headline=erased_or_forgotten if is_forgotten else memory.headline,
        body=None if is_forgotten else memory.body,
        banner=None,
        current_id=ids.show(ids.MEMORY, head.id),
        label=memory.label,
        project=memory.project,
        scope=memory.scope,
        agent=memory.agent,
        session=memory.session,
        trust=memory.trust,
        authority=memory.authority,
        confidence=memory.confidence,
        salience=memory.salience,
        rating=memory.rating,
        tags=() if is_forgotten else memory.tags,
        source_ref=memory.source_ref,
        section=None if is_forgotten else memory.section,
        occurred_at=memory.occurred_at,
        recorded_at=memory.recorded_at,
        superseded_count=memory.superseded_count,
        version=version,
        detail={} if is_forgotten else shown_detail(memory),
        attachment=None if is_forgotten else memory.attachment,
    )
