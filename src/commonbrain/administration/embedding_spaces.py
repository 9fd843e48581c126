"""Administer the embedding spaces of a store."""

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
    """Return the services with another embedder, by default the next one in the settings.

    Raises:
        InvalidInputError: no embedder is named, it is unknown, or it does not match the space in
            the store.
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
    """Position in a tenant's memories."""

    tenant: str
    after: int = 0
    passes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildBatch:
    """A finished batch, and where to continue; None at the end."""

    count: int
    next: BuildCursor | None


def tenant_cursors(services: Services, *, since: str = "") -> Iterator[BuildCursor]:
    """Return the start position of each tenant, beginning with one of them."""
    return (BuildCursor(tenant=name) for name in services.store.tenants() if name >= since)


def fill_batch(services: Services, cursor: BuildCursor) -> BuildBatch:
    """Embed the next memories of a tenant that have no vectors in the services' space.

    Memories stored meanwhile come last. Restored ones, and those that the embedder rejected, are
    handled by another pass.

    Raises:
        UnavailableError: the embedder accepts nothing, or the store cannot be read or written.

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
    """An embedding space, and how complete it is."""

    name: str
    dimensions: int
    state: SpaceState
    lacking: int
    """Memories of all tenants without vectors in it."""
    is_indexed: bool
    """Whether it has a search index; without one every vector is compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResult:
    """The result of building a space."""

    space: str
    embedded: int
    lacking: int
    """Memories that the embedder rejected or that were written at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchResult:
    """The previous and the new serving space."""

    before: str
    after: str
    lacking: int
    """Memories without vectors in it; a switch requires 0."""
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropResult:
    """A dropped space, and the number of deleted vectors."""

    space: str | None
    vectors: int


@dataclass(frozen=True, slots=True)
class EmbeddingSpaces:
    """The embedding spaces of the store, administered by an admin of its first tenant."""

    services: Services
    caller: Caller

    def __call__(self) -> tuple[SpaceView, ...]:
        """List the spaces, oldest first.

        Raises:
            RejectedError: the caller is not an admin of the first tenant.
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
        """Compute vectors of all memories with another embedder, in addition to the existing ones.

        Others read and write meanwhile, and the serving space answers queries. After an
        interruption, run it again to continue.

        Args:
            name: the embedder by its space, such as `ollama/nomic-embed-text/768`, or `minilm`; by
                default the one in the settings.
            on_progress: called with the progress, 0..1.

        Raises:
            InvalidInputError: the embedder is unknown, or none is named.
            RejectedError: the caller is not an admin of the first tenant.
            UnavailableError: the embedder accepts nothing, or the store cannot be read or written.

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
        """Repeat past queries in the serving space and in another; changes nothing.

        The serving space is favoured, because helpful memories were found with it.

        Raises:
            InvalidInputError: the embedder is unknown, or none is named.
            NotFoundError: there is no past query to repeat.
            RejectedError: the caller is not an admin of the first tenant.
            UnavailableError: an embedder or the store does not answer.

        """
        self._check_right()
        other = services_in_space(self.services, name)
        return compare_spaces(self.services, other, caller=self.caller, on_progress=on_progress)

    def switch(self, name: str, *, dry_run: bool = False) -> SwitchResult:
        """Make another space serve; every process follows at its next call.

        Raises:
            NotFoundError: there is no such space.
            RejectedError: `space_incomplete`, memories have no vectors in it; or the caller may
                not.
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
        """Delete the vectors of a space that does not serve; this cannot be undone.

        Args:
            name: the space; None continues interrupted deletions.
            compact: also return disk space to the system, which blocks others.
            on_progress: called with the progress, 0..1.

        Raises:
            NotFoundError: there is no such space.
            RejectedError: `space_in_use`, it serves; or the caller may not.
            UnavailableError: the store stayed locked, is full or read-only; continue later.

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
