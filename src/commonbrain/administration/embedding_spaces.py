"""What is done with the spaces of a store, for one caller who may."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from commonbrain.administration.space_comparison import Comparison, compared
from commonbrain.embeddings.interface import SpaceState
from commonbrain.ingestion.embedding import embedded_if_taken
from commonbrain.model.errors import Invalid, Refused
from commonbrain.model.limits import EMBED_BATCH, SPACE_PASSES_MAX, SPACE_SWEPT_AT_ONCE
from commonbrain.model.scope import LOCAL_TENANT, Caller, Role
from commonbrain.services import House
from commonbrain.storage.maintenance import Progress, unwatched


def house_beside(house: House, name: str | None) -> House:
    """Give the house as it is in the space of an embedder, by default the settings' next one.

    Raises:
        Invalid: none is named, there is none of that name, or the store has its space otherwise.
        Unavailable: the store stayed locked, is full or read-only.

    """
    wanted = name or house.next_space
    if wanted is None or house.embedders is None:
        raise Invalid(
            "No embedder is named that the store is to be moved to.",
            hint="Name one, as in `brain space build ollama/nomic-embed-text/768`, or set "
            "COMMONBRAIN_EMBEDDER_NEXT.",
        )
    embedder = house.embedders(wanted)
    return replace(house, store=house.store.beside(embedder.space), embedder=embedder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the work is: what of a tenant's memories was gone through."""

    tenant: str
    after: int = 0
    passes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch that is kept, and where to go on; None where nothing is left to be done."""

    count: int
    next: Place | None


def places(house: House, *, since: str = "") -> Iterator[Place]:
    """Give where each tenant begins, from one of them on."""
    return (Place(tenant=name) for name in house.store.tenants() if name >= since)


def fill(house: House, place: Place) -> Batch:
    """Give vectors to the next of a tenant's memories that lack them in the house's space.

    What is remembered meanwhile comes after all that is there; what is restored meanwhile, or was
    not taken, is met by a further pass, of which there are not many.

    Raises:
        Unavailable: the embedder takes nothing, or the store cannot be read or written.

    """
    with house.store.snapshot(place.tenant) as tx:
        lacking = tx.index.unembedded(limit=EMBED_BATCH, after=place.after)
        waiting = tx.memories.get(lacking)
    if not waiting:
        is_over = place.after == 0 or place.passes + 1 >= SPACE_PASSES_MAX
        again = Place(tenant=place.tenant, passes=place.passes + 1)
        return Batch(count=0, next=None if is_over else again)
    made = embedded_if_taken([waiting[id_] for id_ in lacking], house.embedder)
    with house.store.begin(place.tenant) as tx:
        count = sum(tx.index.embed(id_, vectors) for id_, vectors in made.items())
    return Batch(
        count=count, next=Place(tenant=place.tenant, after=lacking[-1], passes=place.passes)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSpace:
    """One space, and how much of the store it lacks."""

    name: str
    dimensions: int
    state: SpaceState
    lacking: int
    """Memories of all tenants that have no vectors in it."""
    is_indexed: bool
    """Whether there is what many vectors are searched by; without it all are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What became of a space that was built."""

    space: str
    embedded: int
    lacking: int
    """What the embedder did not take, and what was written at the very end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switched:
    """Which space served, and which does."""

    before: str
    after: str
    lacking: int
    """Memories that lacked vectors in it; a switch is made only where there are none."""
    is_rehearsal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A space that is gone, and how many vectors went with it."""

    space: str | None
    vectors: int


@dataclass(frozen=True, slots=True)
class Spaces:
    """The spaces of the whole store, which an admin of its first tenant is in charge of."""

    house: House
    caller: Caller

    def __call__(self) -> tuple[ShownSpace, ...]:
        """List the spaces, the oldest first.

        Raises:
            Refused: the caller is no admin, or of another tenant than the first.
            Unavailable: the store cannot be read.

        """
        self._check_right()
        spaces = self.house.store.spaces
        return tuple(
            ShownSpace(
                name=one.name,
                dimensions=one.dimensions,
                state=one.state,
                lacking=sum(spaces.lacking(one.id).values()),
                is_indexed=spaces.is_indexed(one.id),
            )
            for one in spaces.listed()
        )

    def build(self, name: str | None = None, *, on_progress: Progress = unwatched) -> Built:
        """Give every memory vectors of another embedder, beside those it has.

        Others read and write meanwhile, and whoever asks is answered from the space that serves.
        When it is interrupted, running it again goes on.

        Args:
            name: the embedder by its space, as `ollama/nomic-embed-text/768`, or `minilm`; by
                default the one that settings name.
            on_progress: told how far it has come, 0..1.

        Raises:
            Invalid: there is no such embedder, or none is named.
            Refused: the caller is no admin, or of another tenant than the first.
            Unavailable: the embedder takes nothing, or the store cannot be read or written.

        """
        self._check_right()
        other = house_beside(self.house, name)
        space = other.store.spaces.add(other.store.space)
        total = sum(other.store.spaces.lacking(space.id).values())
        made = 0
        for start in places(other):
            place = start
            while place is not None:
                done = fill(other, place)
                made, place = made + done.count, done.next
                on_progress(min(made / max(total, 1), 1.0))
        left = sum(other.store.spaces.lacking(space.id).values())
        return Built(space=space.name, embedded=made, lacking=left)

    def compare(self, name: str | None = None, *, on_progress: Progress = unwatched) -> Comparison:
        """Ask what was asked before in the space that serves and in another; nothing is changed.

        What helped was shown by the space that served, which favours it.

        Raises:
            Invalid: there is no such embedder, or none is named.
            NotFound: nothing was asked yet that could be asked again.
            Refused: the caller is no admin, or of another tenant than the first.
            Unavailable: one of the embedders, or the store, does not answer.

        """
        self._check_right()
        other = house_beside(self.house, name)
        return compared(self.house, other, caller=self.caller, on_progress=on_progress)

    def switch(self, name: str, *, dry_run: bool = False) -> Switched:
        """Let another space serve, which every process notices at its next call.

        Raises:
            NotFound: there is none of that name.
            Refused: `space_incomplete`, memories lack vectors in it; or the caller may not.
            Unavailable: the store stayed locked, is full or read-only; nothing was changed.

        """
        shown = {one.name: one for one in self()}
        [serving] = (one.name for one in shown.values() if one.state is SpaceState.CURRENT)
        if dry_run and name in shown:
            lacking = shown[name].lacking
            return Switched(before=serving, after=name, lacking=lacking, is_rehearsal=True)
        before = self.house.store.spaces.switch(name)
        return Switched(before=before.name, after=name, lacking=0)

    def drop(
        self, name: str | None = None, *, compact: bool = False, on_progress: Progress = unwatched
    ) -> Dropped:
        """Delete the vectors of a space that does not serve; there is no way back to it then.

        Args:
            name: the space; None to go on with what is left of others where that was interrupted.
            compact: also give the room back to the disk, for which others must wait.
            on_progress: told how far it has come, 0..1.

        Raises:
            NotFound: there is none of that name.
            Refused: `space_in_use`, it serves; or the caller may not.
            Unavailable: the store stayed locked, is full or read-only; what is left can be dropped
                later.

        """
        self._check_right()
        spaces, count = self.house.store.spaces, 0
        if name is not None:
            spaces.drop(name)
        total = spaces.dropped()
        while swept := spaces.sweep(limit=SPACE_SWEPT_AT_ONCE):
            count += swept
            on_progress(min(count / max(total, 1), 1.0))
        if compact:
            self.house.store.compact()
        return Dropped(space=name, vectors=count)

    def _check_right(self) -> None:
        if self.caller.tenant != LOCAL_TENANT or not self.caller.role.covers(Role.ADMIN):
            raise Refused(
                "All tenants of this store share its spaces.",
                code="scope_denied",
                hint="Ask whoever runs the server.",
            )
