"""Atomize: what stored memories say caused what becomes atoms that are derived from them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from commonbrain.domain import ids as keys
from commonbrain.domain.atom import Atom
from commonbrain.domain.choice import one_of
from commonbrain.domain.errors import NotFound, Refused
from commonbrain.domain.kinds import Kind
from commonbrain.domain.limits import ITEMS_PER_CALL_MAX
from commonbrain.domain.memory import CURRENT_STATES, Draft, Memory
from commonbrain.domain.normalise import normalise_line
from commonbrain.domain.query import Filter
from commonbrain.domain.scope import Caller, is_visible
from commonbrain.domain.scoring import confidence_of
from commonbrain.flows.house import House
from commonbrain.flows.remember.outcome import Outcome, Status
from commonbrain.flows.remember.pipeline import Course, Remember
from commonbrain.ports.store import Look, Transaction

_TEXTS: Final = frozenset(Kind) - {Kind.ATOM, Kind.TASK}
"""Kinds that tell of what was; an atom is one already, and a task is yet to be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Atomized:
    """How many memories were read, and what became of the atoms found in them."""

    extractor: str
    read: int
    stored: int
    known: int
    """Atoms that were there already."""
    rejected: int
    items: tuple[Outcome, ...] = ()


@dataclass(frozen=True, slots=True)
class Atomize:
    """Making atoms for one caller."""

    house: House
    caller: Caller

    def __call__(
        self,
        ids: Sequence[str] | str = (),
        *,
        kinds: Sequence[Kind | str] = (),
        project: str | None = None,
        limit: int = ITEMS_PER_CALL_MAX,
    ) -> Atomized:
        """Find causes in memories by the extractor that settings name; doing it again adds none.

        Atoms are derived from what they were found in: no more trusted, no wider, of its project,
        and of the time at which it occurred.

        Args:
            ids: which memories; by default the newest that the caller may see.
            kinds: only of these kinds.
            project: only of this project and of none.
            limit: how many at most, 1 to 100.

        Returns:
            What was read and stored.

        Raises:
            NotFound: one of the ids is none, or not to be seen; nothing was stored.
            Refused: the limit, or the count of ids, is out of bounds; nothing was stored.
            Invalid: a kind is none.
            Unavailable: `extractor_down`, or the store cannot be written; nothing was stored.

        """
        wanted = (ids,) if isinstance(ids, str) else tuple(ids)
        if not 1 <= limit <= ITEMS_PER_CALL_MAX or len(wanted) > ITEMS_PER_CALL_MAX:
            raise Refused(
                f"1 to {ITEMS_PER_CALL_MAX} memories a call are allowed.",
                code="limit_exceeded",
                hint="Call it again for more.",
            )
        among = tuple(one_of(Kind, kind) for kind in kinds) or tuple(_TEXTS)
        where = Filter(kinds=among, project=normalise_line(project), trust_min=0.0)
        look = Look(caller=self.caller, filter=where, now=self.house.clock.now())
        with self.house.store.snapshot(self.caller.tenant) as tx:
            if wanted:
                sources = self._named(tx, wanted)
            else:
                listed = [hit.id for hit in tx.memories.newest(look, limit=limit)]
                sources = list(tx.memories.get(listed).values())
        return self._remember(sources)

    def _named(self, tx: Transaction, wanted: Sequence[str]) -> list[Memory]:
        parsed = [keys.parse(keys.MEMORY, one) for one in wanted]
        known = tx.memories.get(parsed)
        for id_ in parsed:
            one = known.get(id_)
            if one is None or one.state not in CURRENT_STATES or not is_visible(self.caller, one):
                raise NotFound(
                    f"There is no memory {keys.show(keys.MEMORY, id_)} to find causes in.",
                    hint="Check the id.",
                )
        return [known[id_] for id_ in dict.fromkeys(parsed) if known[id_].kind in _TEXTS]

    def _remember(self, sources: Sequence[Memory]) -> Atomized:
        # Asking a model may take long: no transaction is open meanwhile.
        drafts = [draft for one in sources for draft in self._drafts(one)]
        course = Course(compares_meaning=False)
        items = Remember(self.house, self.caller).write(drafts, course).items if drafts else ()
        statuses = [one.status for one in items]
        return Atomized(
            extractor=self.house.extractor.name,
            read=len(sources),
            stored=statuses.count(Status.STORED) + statuses.count(Status.QUARANTINED),
            known=statuses.count(Status.EXISTS),
            rejected=statuses.count(Status.REJECTED) + statuses.count(Status.DUPLICATE),
            items=items,
        )

    def _drafts(self, source: Memory) -> Iterator[Draft]:
        return (_draft(atom, source) for atom in self.house.extractor.atoms(source.body))


def _draft(atom: Atom, source: Memory) -> Draft:
    """Give an atom as what is derived from its source, which settles trust and scope."""
    return Draft(
        body=atom.body,
        kind=Kind.ATOM,
        columns=atom.columns,
        confidence=min(source.confidence, confidence_of(atom, of=source.kind, trust=source.trust)),
        project=source.project,
        scope=source.scope,
        source_ref=source.source_ref,
        occurred_at=source.occurred_at,
        audience=source.audience,
        auto_captured=True,
        derived_from=(source.id,),
        source_message_id=source.id if source.kind is Kind.MESSAGE else None,
    )
