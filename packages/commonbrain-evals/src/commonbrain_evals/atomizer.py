"""The atomizer, measured on labelled sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from commonbrain.model.kinds import Atom
from commonbrain.text.causal_extraction import extract_atoms
from commonbrain_evals.labelled import LabelledReport, Verdict, report
from commonbrain_evals.rows import half_of, read_rows

_DATA: Final = (
    "atoms.jsonl: {rows} sentences written for it, {negatives} of them tell of no cause. An atom is"
    " right when it holds the words that name the cause on its side and those that name the effect"
    " on the other. The patterns were tuned on the half calibrate; both were written by one hand,"
    " and labelled before they were tried, so that other writers' texts will do worse."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A text, what its writer calls it, and by which words cause and effect are known."""

    sort: str
    """The way in which it tells of a cause, or why it tells of none."""
    text: str
    cause: str | None = None
    effect: str | None = None


def read_sentences() -> Sequence[Sentence]:
    """Read the sentences that ship with the package, in the order of the file."""
    return [Sentence(**row) for row in read_rows("atoms.jsonl")]


def evaluate(sentences: Sequence[Sentence]) -> LabelledReport:
    """Atomize every sentence and hold what comes out against its label."""
    negatives = sum(one.cause is None for one in sentences)
    return report(
        [verdict for one in sentences for verdict in _verdicts(one)],
        title="Causes",
        data=_DATA.format(rows=len(sentences), negatives=negatives),
    )


def _verdicts(sentence: Sentence) -> Iterator[Verdict]:
    """Give a verdict on each atom, and one on a cause that none of them tells."""
    is_told = False
    found = extract_atoms(sentence.text)
    for atom in found:
        is_right = not is_told and _is_right(atom, sentence)
        is_told = is_told or is_right
        yield _verdict(sentence, said=True, so=is_right, found=f"{atom.pattern}: {atom.body}")
    if sentence.cause is not None and not is_told:
        yield _verdict(sentence, said=False, so=True)
    elif not found:
        yield _verdict(sentence, said=False, so=False)


def _verdict(sentence: Sentence, *, said: bool, so: bool, found: str = "") -> Verdict:
    half = half_of(sentence.text)
    return Verdict(sort=sentence.sort, half=half, text=sentence.text, said=said, so=so, found=found)


def _is_right(atom: Atom, sentence: Sentence) -> bool:
    if sentence.cause is None or sentence.effect is None:
        return False
    cause, effect = f"{atom.subject} {atom.action}", f"{atom.outcome} {atom.consequences}"
    return _holds(cause, sentence.cause) and _holds(effect, sentence.effect)


def _holds(text: str, words: str) -> bool:
    return words.casefold() in text.casefold()
