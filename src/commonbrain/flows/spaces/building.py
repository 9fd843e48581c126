"""Filling a space beside the one that serves, batch by batch, while others read and write."""

from collections.abc import Iterator
from dataclasses import dataclass

from commonbrain.domain.limits import EMBED_BATCH, SPACE_PASSES_MAX
from commonbrain.flows.embedding import embedded_if_taken
from commonbrain.flows.house import House


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
