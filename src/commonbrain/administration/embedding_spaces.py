"""What is done with the spaces of a store, for one caller who may."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from commonbrain.administration.space_comparison import Comparison, compare_spaces
from commonbrain.embeddings.interface import SpaceState
from commonbrain.ingestion.embedding import embed_if_free
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.limits import EMBED_BATCH, SPACE_PASSES_MAX, SPACE_SWEPT_AT_ONCE
from commonbrain.model.scope import LOCAL_TENANT, Caller, Role
from commonbrain.services import Services
from commonbrain.storage.maintenance import Progress, ignore_progress


def services_in_space(services: Services, name: str | None) -> Services:
    """Give the house as it is in the space of an embedder, by default the settings' next one.

    Raises:
        InvalidInputError: none is named, there is none of that name, or the store has its space
            otherwise.
        UnavailableError: the store stayed locked, is full or read-only.

    """
    space_name = name or services.next_space
    if space_name is None or services.embedders is None:
        raise InvalidInputError(
            "No embedder is named that the store is to be moved to.",
            hint="Name one, as in `brain embeddings build ollama/nomic-embed-text/768`, or set "
            "COMMONBRAIN_EMBEDDER_NEXT.",
        )
    embedder = services.embedders(space_name)
    return replace(services, store=services.store.in_space(embedder.space), embedder=embedder)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildCursor:
    """Where the work is: what of a tenant's memories was gone through."""

    tenant: str
    after: int = 0
    passes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildBatch:
    """One batch that is kept, and where to go on; None where nothing is left to be done."""

    count: int
    next: BuildCursor | None


def tenant_cursors(services: Services, *, since: str = "") -> Iterator[BuildCursor]:
    """Give where each tenant begins, from one of them on."""
    return (BuildCursor(tenant=name) for name in services.store.tenants() if name >= since)


def fill_batch(services: Services, cursor: BuildCursor) -> BuildBatch:
    """Give vectors to the next of a tenant's memories that lack them in the house's space.

    What is remembered meanwhile comes after all that is there; what is restored meanwhile, or was
    not taken, is met by a further pass, of which there are not many.

    Raises:
        UnavailableError: the embedder takes nothing, or the store cannot be read or written.

    """
    with services.store.snapshot(cursor.tenant) as tx:
        missing = tx.index.unembedded(limit=EMBED_BATCH, after=cursor.after)
        waiting = tx.memories.get(missing)
    if not waiting:
        is_over = cursor.after == 0 or cursor.passes + 1 >= SPACE_PASSES_MAX
        again = BuildCursor(tenant=cursor.tenant, passes=cursor.passes + 1)
        return BuildBatch(count=0, next=None if is_over else again)
    made = embed_if_free([waiting[id_] for id_ in missing], services.embedder)
    with services.store.begin(cursor.tenant) as tx:
        count = sum(tx.index.embed(id_, vectors) for id_, vectors in made.items())
    return BuildBatch(
        count=count, next=BuildCursor(tenant=cursor.tenant, after=missing[-1], passes=cursor.passes)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceView:
    """One space, and how much of the store it lacks."""

    name: str
    dimensions: int
    state: SpaceState
    lacking: int
    """Memories of all tenants that have no vectors in it."""
    is_indexed: bool
    """Whether there is what many vectors are searched by; without it all are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResult:
    """What became of a space that was built."""

    space: str
    embedded: int
    lacking: int
    """What the embedder did not take, and what was written at the very end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchResult:
    """Which space served, and which does."""

    before: str
    after: str
    lacking: int
    """Memories that lacked vectors in it; a switch is made only where there are none."""
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropResult:
    """A space that is gone, and how many vectors went with it."""

    space: str | None
    vectors: int


@dataclass(frozen=True, slots=True)
class EmbeddingSpaces:
    """The spaces of the whole store, which an admin of its first tenant is in charge of."""

    services: Services
    caller: Caller

    def __call__(self) -> tuple[SpaceView, ...]:
        """List the spaces, the oldest first.

        Raises:
            RejectedError: the caller is no admin, or of another tenant than the first.
            UnavailableError: the store cannot be read.

        """
        self._check_right()
        spaces = self.services.store.spaces
        return tuple(
            SpaceView(
                name=one.name,
                dimensions=one.dimensions,
                state=one.state,
                lacking=sum(spaces.missing_vectors(one.id).values()),
                is_indexed=spaces.is_indexed(one.id),
            )
            for one in spaces.listed()
        )

    def build(
        self, name: str | None = None, *, on_progress: Progress = ignore_progress
    ) -> BuildResult:
        """Give every memory vectors of another embedder, beside those it has.

        Others read and write meanwhile, and whoever asks is answered from the space that serves.
        When it is interrupted, running it again goes on.

        Args:
            name: the embedder by its space, as `ollama/nomic-embed-text/768`, or `minilm`; by
                default the one that settings name.
            on_progress: told how far it has come, 0..1.

        Raises:
            InvalidInputError: there is no such embedder, or none is named.
            RejectedError: the caller is no admin, or of another tenant than the first.
            UnavailableError: the embedder takes nothing, or the store cannot be read or written.

        """
        self._check_right()
        other = services_in_space(self.services, name)
        space = other.store.spaces.add(other.store.space)
        total = sum(other.store.spaces.missing_vectors(space.id).values())
        made = 0
        for start in tenant_cursors(other):
            place = start
            while place is not None:
                done = fill_batch(other, place)
                made, place = made + done.count, done.next
                on_progress(min(made / max(total, 1), 1.0))
        left = sum(other.store.spaces.missing_vectors(space.id).values())
        return BuildResult(space=space.name, embedded=made, lacking=left)

    def compare(
        self, name: str | None = None, *, on_progress: Progress = ignore_progress
    ) -> Comparison:
        """Ask what was asked before in the space that serves and in another; nothing is changed.

        What helped was shown by the space that served, which favours it.

        Raises:
            InvalidInputError: there is no such embedder, or none is named.
            NotFoundError: nothing was asked yet that could be asked again.
            RejectedError: the caller is no admin, or of another tenant than the first.
            UnavailableError: one of the embedders, or the store, does not answer.

        """
        self._check_right()
        other = services_in_space(self.services, name)
        return compare_spaces(self.services, other, caller=self.caller, on_progress=on_progress)

    def switch(self, name: str, *, dry_run: bool = False) -> SwitchResult:
        """Let another space serve, which every process notices at its next call.

        Raises:
            NotFoundError: there is none of that name.
            RejectedError: `space_incomplete`, memories lack vectors in it; or the caller may not.
            UnavailableError: the store stayed locked, is full or read-only; nothing was changed.

        """
        shown = {one.name: one for one in self()}
        [serving] = (one.name for one in shown.values() if one.state is SpaceState.CURRENT)
        if dry_run and name in shown:
            lacking = shown[name].lacking
            return SwitchResult(before=serving, after=name, lacking=lacking, is_dry_run=True)
        before = self.services.store.spaces.switch(name)
        return SwitchResult(before=before.name, after=name, lacking=0)

    def drop(
        self,
        name: str | None = None,
        *,
        compact: bool = False,
        on_progress: Progress = ignore_progress,
    ) -> DropResult:
        """Delete the vectors of a space that does not serve; there is no way back to it then.

        Args:
            name: the space; None to go on with what is left of others where that was interrupted.
            compact: also give the room back to the disk, for which others must wait.
            on_progress: told how far it has come, 0..1.

        Raises:
            NotFoundError: there is none of that name.
            RejectedError: `space_in_use`, it serves; or the caller may not.
            UnavailableError: the store stayed locked, is full or read-only; what is left can be
                dropped later.

        """
        self._check_right()
        spaces, count = self.services.store.spaces, 0
        if name is not None:
            spaces.drop(name)
        total = spaces.dropped()
        while deleted := spaces.sweep(limit=SPACE_SWEPT_AT_ONCE):
            count += deleted
            on_progress(min(count / max(total, 1), 1.0))
        if compact:
            self.services.store.compact()
        return DropResult(space=name, vectors=count)

    def _check_right(self) -> None:
        if self.caller.tenant != LOCAL_TENANT or not self.caller.role.covers(Role.ADMIN):
            raise RejectedError(
                "All tenants of this store share its spaces.",
                code="scope_denied",
                hint="Ask whoever runs the server.",
            )
