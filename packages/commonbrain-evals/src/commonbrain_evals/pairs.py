"""Labelled pairs of texts: what the second is to the first, as its writer saw it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from commonbrain.model.kinds import Kind
from commonbrain_evals.rows import Half, half_of, read_rows


class Label(StrEnum):
    """What one text is to another."""

    PARAPHRASE = "paraphrase"
    UPDATE = "update"
    NEAR_MISS = "near_miss"
    UNRELATED = "unrelated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two texts of one kind, and what they are to each other."""

    label: Label
    kind: Kind
    one: str
    other: str

    @property
    def half(self) -> Half:
        """Tell the half by the first text, so that no text is chosen by and checked on."""
        return half_of(self.one)


def read_pairs() -> Sequence[Pair]:
    """Read the pairs that ship with the package, in the order of the file."""
    return [
        Pair(label=Label(row["label"]), kind=Kind(row["kind"]), one=row["one"], other=row["other"])
        for row in read_rows("pairs.jsonl")
    ]
