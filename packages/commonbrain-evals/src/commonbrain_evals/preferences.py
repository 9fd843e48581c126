"""The rules for instructions and preferences, measured on labelled sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from commonbrain_models.calibration import split_of

from commonbrain.text.preferences import Guidance, guidance_in
from commonbrain_evals.labelled import LabelledReport, Prediction, report
from commonbrain_evals.rows import read_rows

_DATA: Final = (
    "preferences.jsonl: {rows} sentences written for it, {negatives} of them neither an instruction"
    " nor a preference. A positive is right when its own sort is recognised, a negative when none"
    " is. All were written by one hand and labelled before they were tried; the rules were refined"
    " on the half calibrate."
)
NEITHER: Final = "neither"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledSentence:
    """A sentence, its kind of guidance or `neither`, and what its writer calls it."""

    label: str
    sort: str
    text: str


def read_sentences() -> Sequence[LabelledSentence]:
    """Read the sentences that ship with the package, in the order of the file."""
    return [LabelledSentence(**row) for row in read_rows("preferences.jsonl")]


def evaluate(sentences: Sequence[LabelledSentence]) -> LabelledReport:
    """Judge every sentence and hold the judgement against its label."""
    negatives = sum(one.label == NEITHER for one in sentences)
    return report(
        [_prediction(one) for one in sentences],
        title="Preferences",
        data=_DATA.format(rows=len(sentences), negatives=negatives),
    )


def _prediction(sentence: LabelledSentence) -> Prediction:
    guidance = guidance_in(sentence.text)
    is_positive = sentence.label != NEITHER
    return Prediction(
        sort=sentence.sort,
        half=split_of(sentence.text),
        text=sentence.text,
        predicted=Guidance(sentence.label) in guidance if is_positive else bool(guidance),
        expected=is_positive,
        result=", ".join(sorted(guidance)),
    )
