"""Labelled pairs of texts: what the second is to the first, as its writer saw it."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files

from commonbrain.domain.kinds import Kind


class Label(StrEnum):
    """What one text is to another."""

    PARAPHRASE = "paraphrase"
    UPDATE = "update"
    NEAR_MISS = "near_miss"
    UNRELATED = "unrelated"


class Half(StrEnum):
    """What a pair is used for: to choose by, or to see whether the choice holds."""

    CALIBRATE = "calibrate"
    CHECK = "check"


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
        is_even = hashlib.sha256(self.one.encode()).digest()[0] % 2 == 0
        return Half.CALIBRATE if is_even else Half.CHECK


def read_pairs() -> Sequence[Pair]:
    """Read the pairs that ship with the package, in the order of the file."""
    text = files("commonbrain.evals").joinpath("pairs.jsonl").read_text("utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    return [
        Pair(label=Label(row["label"]), kind=Kind(row["kind"]), one=row["one"], other=row["other"])
        for row in rows
    ]
