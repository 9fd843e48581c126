"""The rule for conflicts, measured on labelled pairs of statements."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from commonbrain_models.calibration import Label, read_pairs, split_of

from commonbrain.model.kinds import Kind
from commonbrain.text.changes import find_change
from commonbrain_evals.labelled import LabelledReport, Prediction, report
from commonbrain_evals.rows import read_rows

_DATA: Final = (
    "conflicts.jsonl: {own} pairs written for it, and pairs.jsonl: {reused} pairs of facts, where"
    " near misses and paraphrases count as no conflict. Contradictions and updates are conflicts:"
    " only time tells one from the other, and the rule does not see it. All were written by one"
    " hand, and the rule was chosen on the half calibrate."
)


class StatementRelation(StrEnum):
    """What one statement is to another."""

    CONTRADICTION = "contradiction"
    UPDATE = "update"
    REFINEMENT = "refinement"
    """The same, with a detail more."""
    UNRELATED = "unrelated"
    PARAPHRASE = "paraphrase"


_CONFLICTS: Final = frozenset({StatementRelation.CONTRADICTION, StatementRelation.UPDATE})
_RELATIONS: Final = {
    Label.UPDATE: StatementRelation.UPDATE,
    Label.NEAR_MISS: StatementRelation.UNRELATED,
    Label.UNRELATED: StatementRelation.UNRELATED,
    Label.PARAPHRASE: StatementRelation.PARAPHRASE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementPair:
    """Two statements and what they are to each other."""

    relation: StatementRelation
    one: str
    other: str
    is_reused: bool = False


def read_statements() -> Sequence[StatementPair]:
    """Read the pairs for conflicts, then those for duplicates that are facts."""
    own = [
        StatementPair(relation=StatementRelation(row["label"]), one=row["one"], other=row["other"])
        for row in read_rows("conflicts.jsonl")
    ]
    reused = [
        StatementPair(
            relation=_RELATIONS[pair.label], one=pair.one, other=pair.other, is_reused=True
        )
        for pair in read_pairs()
        if pair.kind is Kind.FACT
    ]
    return [*own, *reused]


def evaluate(statements: Sequence[StatementPair]) -> LabelledReport:
    """Judge every pair and hold the judgement against its label."""
    reused = sum(one.is_reused for one in statements)
    return report(
        [_prediction(one) for one in statements],
        title="Conflicts",
        data=_DATA.format(own=len(statements) - reused, reused=reused),
    )


def _prediction(pair: StatementPair) -> Prediction:
    basis = find_change(pair.one, pair.other)
    return Prediction(
        sort=f"{pair.relation}{', reused' if pair.is_reused else ''}",
        half=split_of(pair.one),
        text=f"{pair.one} / {pair.other}",
        predicted=basis is not None,
        expected=pair.relation in _CONFLICTS,
        result=basis or "",
    )
