"""The atomizer, measured on labelled sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from commonbrain_causes.patterns import extract_atoms
from commonbrain_models.calibration import split_of

from commonbrain.model.atoms import Atom
from commonbrain_evals.labelled import LabelledReport, Prediction, report
from commonbrain_evals.rows import read_rows

_DATA: Final = (
    "{rows} sentences written for it, {negatives} of them without a cause: atoms.jsonl by how they"
    " state a cause, incidents.jsonl in the style of incident reports and of chat. An atom is right"
    " if the words that name the cause are on its side and those that name the effect on the other."
    " All were labelled before they were tried, by the author of the patterns, and the patterns"
    " were tuned on the half calibrate; other authors' texts will do worse."
)
FILES: Final = ("atoms.jsonl", "incidents.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A text, what its writer calls it, and by which words cause and effect are known."""

    sort: str
    """The way in which it states a cause, or why it states none."""
    text: str
    cause: str | None = None
    effect: str | None = None
    file: str = FILES[0]


def read_sentences() -> Sequence[Sentence]:
    """Read the sentences that ship with the package, in the order of the files."""
    return [Sentence(**row, file=name) for name in FILES for row in read_rows(name)]


def evaluate(sentences: Sequence[Sentence]) -> LabelledReport:
    """Atomize every sentence and hold what comes out against its label."""
    negatives = sum(one.cause is None for one in sentences)
    return report(
        [prediction for one in sentences for prediction in _predictions(one)],
        title="Causes",
        data=_DATA.format(rows=len(sentences), negatives=negatives),
    )


def _predictions(sentence: Sentence) -> Iterator[Prediction]:
    """Give a verdict on each atom, and one on a cause that none of them tells."""
    is_reported = False
    atoms = extract_atoms(sentence.text)
    for atom in atoms:
        is_right = not is_reported and _is_right(atom, sentence)
        is_reported = is_reported or is_right
        yield _prediction(
            sentence, predicted=True, expected=is_right, result=f"{atom.pattern}: {atom.body}"
        )
    if sentence.cause is not None and not is_reported:
        yield _prediction(sentence, predicted=False, expected=True)
    elif not atoms:
        yield _prediction(sentence, predicted=False, expected=False)


def _prediction(
    sentence: Sentence, *, predicted: bool, expected: bool, result: str = ""
) -> Prediction:
    half = split_of(sentence.text)
    return Prediction(
        sort=sentence.sort,
        half=half,
        text=sentence.text,
        file=sentence.file,
        predicted=predicted,
        expected=expected,
        result=result,
    )


def _is_right(atom: Atom, sentence: Sentence) -> bool:
    if sentence.cause is None or sentence.effect is None:
        return False
    cause, effect = f"{atom.subject} {atom.action}", f"{atom.outcome} {atom.consequences}"
    return _contains_words(cause, sentence.cause) and _contains_words(effect, sentence.effect)


def _contains_words(text: str, words: str) -> bool:
    return words.casefold() in text.casefold()
