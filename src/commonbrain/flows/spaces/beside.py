"""The same house with another embedder, in the space that this one makes vectors of."""

from dataclasses import replace

from commonbrain.domain.errors import Invalid
from commonbrain.flows.house import House


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
