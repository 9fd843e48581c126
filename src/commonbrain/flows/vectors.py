"""Making the vectors of memories: of what each says as a whole, and of every field of an atom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from commonbrain.domain.atom import CausalField, fields_of
from commonbrain.domain.kinds import Detail
from commonbrain.domain.memory import Memory
from commonbrain.ports.models import Embedder, Vectors


def vectors_for(memories: Sequence[Memory], embedder: Embedder) -> dict[int, Vectors]:
    """Embed memories in one batch; give their vectors by id.

    Raises:
        Unavailable: the embedder is down, or does not take one of the texts.

    """
    made = embedded([(one.text, one.detail) for one in memories], embedder)
    return {one.id: given for one, given in zip(memories, made, strict=True)}


def embedded(told: Sequence[tuple[str, Detail | None]], embedder: Embedder) -> list[Vectors]:
    """Embed full texts and the fields of what is an atom, each distinct text once, in one batch.

    Raises:
        Unavailable: the embedder is down, or does not take one of the texts.

    """
    fields = [fields_of(detail) for _, detail in told]
    texts = dict.fromkeys(
        said
        for (text, _), parts in zip(told, fields, strict=True)
        for said in (text, *parts.values())
    )
    made = dict(zip(texts, embedder.passages(list(texts)), strict=True)) if texts else {}

    def vectors(text: str, parts: Mapping[CausalField, str]) -> Vectors:
        # A field is a clause: of one that is longer than a window, its beginning tells the matter.
        beginnings = {name: made[said][0] for name, said in parts.items()}
        return Vectors(windows=made[text], fields=beginnings)

    return [vectors(text, parts) for (text, _), parts in zip(told, fields, strict=True)]
