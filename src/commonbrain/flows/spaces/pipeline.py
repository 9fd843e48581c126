"""What is done with the spaces of a store, for one caller who may."""

from dataclasses import dataclass

from commonbrain.domain.errors import Refused
from commonbrain.domain.limits import SPACE_SWEPT_AT_ONCE
from commonbrain.domain.scope import LOCAL_TENANT, Caller, Role
from commonbrain.domain.space import SpaceState
from commonbrain.domain.space_comparison import Comparison
from commonbrain.flows.house import House
from commonbrain.flows.spaces.beside import house_beside
from commonbrain.flows.spaces.building import fill, places
from commonbrain.flows.spaces.comparing import compared
from commonbrain.ports.keeping import Progress, unwatched


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
