"""Rules that read text, measured on labelled rows: one row of `TEXT_RULES` for each evaluation."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, cast

from commonbrain_causes.patterns import extract_atoms
from commonbrain_models.calibration import CalibrationSplit, Label, read_pairs, split_of

from commonbrain.model.atoms import Atom
from commonbrain.model.kinds import Kind
from commonbrain.model.revision import BeliefPeriod
from commonbrain.security.secret_values import redacted
from commonbrain.security.secrets import SecretScanner
from commonbrain.text.capture import select_captured
from commonbrain.text.changes import find_change
from commonbrain.text.preferences import Guidance, guidance_in
from commonbrain.text.time_expressions.calendar import DAY, EARLIEST
from commonbrain.text.time_expressions.mentions import mentions_in
from commonbrain.text.time_expressions.parser import parse_time_range
from commonbrain_evals.labelled import LabelledReport, Prediction, read_rows, report
from commonbrain_evals.retrieval.data_files import UtcTime


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRule:
    """A rule and the labelled rows that it is measured on."""

    title: str
    data: str
    """Description and origin of the data, with places for its counts."""
    read: Callable[[], Sequence[Any]]
    predict: Callable[[Any], Iterable[Prediction]]
    """Returns the predictions for one row: usually one."""
    count: Callable[[Sequence[Any]], Mapping[str, int]]

    def evaluate(self) -> LabelledReport:
        """Apply the rule to every row and compare the results with the labels."""
        rows = self.read()
        predictions = [prediction for row in rows for prediction in self.predict(row)]
        return report(predictions, title=self.title, data=self.data.format(**self.count(rows)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledText:
    """A text, what its writer calls it, and its file if the data has several."""

    sort: str
    text: str
    file: str = ""

    def predictions(
        self, outputs: Sequence[tuple[bool, str]], *, is_labelled: bool
    ) -> Iterator[Prediction]:
        """Yield one for each output that is right or not, and one for what was not found."""
        results = [(True, is_right, result) for is_right, result in outputs]
        if is_labelled and not any(is_right for is_right, _ in outputs):
            results.append((False, True, ""))
        elif not outputs:
            results.append((False, False, ""))
        for predicted, expected, result in results:
            yield Prediction(
                sort=self.sort,
                half=split_of(self.text),
                text=self.text,
                file=self.file,
                predicted=predicted,
                expected=expected,
                result=result,
            )


CAUSE_FILES: Final = ("atoms.jsonl", "incidents.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseSentence(LabelledText):
    """A sentence, and words that identify the cause and the effect that it states."""

    cause: str | None = None
    effect: str | None = None

    def is_stated_by(self, atom: Atom) -> bool:
        """Return whether an atom has the cause and the effect on the right sides."""
        if self.cause is None or self.effect is None:
            return False
        cause = f"{atom.subject} {atom.action}".casefold()
        effect = f"{atom.outcome} {atom.consequences}".casefold()
        return self.cause.casefold() in cause and self.effect.casefold() in effect


def read_cause_sentences() -> list[CauseSentence]:
    """Read the sentences that ship with the package, in the order of the files."""
    return [
        replace(row, file=file) for file in CAUSE_FILES for row in read_rows(CauseSentence, file)
    ]


def _predict_causes(sentence: CauseSentence) -> Iterator[Prediction]:
    outputs: list[tuple[bool, str]] = []
    for atom in extract_atoms(sentence.text):
        # A second atom of the same cause is wrong.
        is_found = any(is_right for is_right, _ in outputs)
        is_right = not is_found and sentence.is_stated_by(atom)
        outputs.append((is_right, f"{atom.pattern}: {atom.body}"))
    return sentence.predictions(outputs, is_labelled=sentence.cause is not None)


class StatementRelation(StrEnum):
    """The relation of one statement to another."""

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
    """Two statements and their relation."""

    label: StatementRelation
    one: str
    other: str
    is_reused: bool = False
    """Whether it is of the pairs for duplicates."""


def read_statements() -> list[StatementPair]:
    """Read the pairs for conflicts, then those for duplicates that are facts."""
    reused = [
        StatementPair(label=_RELATIONS[pair.label], one=pair.one, other=pair.other, is_reused=True)
        for pair in read_pairs()
        if pair.kind is Kind.FACT
    ]
    return [*read_rows(StatementPair, "conflicts.jsonl"), *reused]


def _predict_conflict(pair: StatementPair) -> Iterator[Prediction]:
    basis = find_change(pair.one, pair.other)
    yield Prediction(
        sort=f"{pair.label}{', reused' if pair.is_reused else ''}",
        half=split_of(pair.one),
        text=f"{pair.one} / {pair.other}",
        predicted=basis is not None,
        expected=pair.label in _CONFLICTS,
        result=basis or "",
    )


_NO_GUIDANCE: Final = "neither"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidanceSentence:
    """A sentence, and its kind of guidance or `neither`."""

    label: str
    sort: str
    text: str


def read_guidance_sentences() -> list[GuidanceSentence]:
    """Read the sentences that ship with the package, in the order of the file."""
    return read_rows(GuidanceSentence, "preferences.jsonl")


def _predict_guidance(sentence: GuidanceSentence) -> Iterator[Prediction]:
    guidance = guidance_in(sentence.text)
    is_positive = sentence.label != _NO_GUIDANCE
    yield Prediction(
        sort=sentence.sort,
        half=split_of(sentence.text),
        text=sentence.text,
        predicted=Guidance(sentence.label) in guidance if is_positive else bool(guidance),
        expected=is_positive,
        result=", ".join(sorted(guidance)),
    )


CAPTURES_FILE: Final = "captures.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedTurn:
    """A reply of an agent or a prompt, and what of it outlives its turn and what must not."""

    source: str
    text: str
    store: tuple[str, ...]
    """Statements of its author that are worth storing."""
    never: tuple[str, ...]
    """What it quotes, reports, asks or only considers."""
    why: str


def read_captured_turns() -> list[CapturedTurn]:
    """Read the turns that ship with the package, in the order of the file."""
    return read_rows(CapturedTurn, CAPTURES_FILE)


def _predict_capture(turn: CapturedTurn) -> Iterator[Prediction]:
    captured = _on_one_line("\n".join(select_captured(turn.text, "auto")))
    for part in (*turn.store, *turn.never):
        yield Prediction(
            sort=f"{turn.source}, {'own' if part in turn.store else 'not own'}",
            half=split_of(turn.text),
            text=part,
            predicted=_on_one_line(part) in captured,
            expected=part in turn.store,
            result=turn.why,
        )


def _on_one_line(text: str) -> str:
    return " ".join(text.split()).casefold()


SECRETS_FILE: Final = "secrets.jsonl"
_FILES_WITHOUT_SECRETS: Final = (
    *("holding.jsonl", "truth.jsonl", "headlines.jsonl", "prompts.jsonl", "timeline_notes.jsonl"),
    *("incidents.jsonl", "atoms.jsonl", "conflicts.jsonl", "preferences.jsonl", "days.jsonl"),
)
_SCANNER: Final = SecretScanner()


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretText:
    """A text, and the credential in it if there is one."""

    half: CalibrationSplit
    language: str = ""
    sort: str = "other"
    text: str
    secret: str | None = None


def read_secret_texts() -> list[SecretText]:
    """Read the labelled texts, then those of other evaluations, which have no credential."""
    others = [
        SecretText(
            half=CalibrationSplit(row["half"]) if "half" in row else split_of(text), text=text
        )
        for name in _FILES_WITHOUT_SECRETS
        for row in read_rows(dict[str, Any], name)
        for text in _sentences_in(row)
    ]
    return [*read_rows(SecretText, SECRETS_FILE), *others]


def _predict_secret(row: SecretText) -> Iterator[Prediction]:
    refused = _refused_sort(row.text)
    yield Prediction(
        sort=f"{row.sort} {row.language}".rstrip(),
        half=row.half,
        text=row.text,
        predicted=refused is not None,
        expected=row.secret is not None,
        result=refused or "",
        file=SECRETS_FILE if row.language else "others",
    )


def _refused_sort(text: str) -> str | None:
    return next((match.sort for match in _SCANNER.find(text) if match.is_certain), None)


def _count_secrets(rows: Sequence[SecretText]) -> Mapping[str, int]:
    labelled = [row for row in rows if row.language]
    secrets = [row for row in labelled if row.secret is not None]
    return {
        "secrets": len(secrets),
        "harmless": len(labelled) - len(secrets),
        "others": len(rows) - len(labelled),
        "left": sum(
            _refused_sort(row.text) is not None
            and str(row.secret) in redacted(row.text, _SCANNER.find(row.text))
            for row in secrets
        ),
    }


def _sentences_in(value: object) -> Iterator[str]:
    """Yield the strings with a space in a JSON value."""
    match value:
        case str() if " " in value:
            yield value
        case dict():
            for member in cast("dict[str, object]", value).values():
                yield from _sentences_in(member)
        case list():
            for member in cast("list[object]", value):
                yield from _sentences_in(member)
        case _:
            pass


_STATEMENT: Final = "statement"
"""The sorts of statements begin with it; they are read as memories are."""
_TOLERANCE_MIN: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeExpression(LabelledText):
    """A question or statement, when it is said, and the span that it names, if any."""

    now: UtcTime
    since: UtcTime | None = None
    """None where the span has no beginning."""
    until: UtcTime | None = None
    """None where it names no time."""

    @property
    def span(self) -> BeliefPeriod | None:
        """The span that it names."""
        if self.until is None:
            return None
        return BeliefPeriod(since=self.since or EARLIEST, until=self.until)


def read_time_expressions() -> list[TimeExpression]:
    """Read the questions and statements that ship with the package, in the order of the file."""
    return read_rows(TimeExpression, "times.jsonl")


def _predict_time(row: TimeExpression) -> Iterator[Prediction]:
    span = _read_span(row)
    outputs: list[tuple[bool, str]] = []
    if span is not None:
        is_right = row.span is not None and _is_near(span, row.span)
        outputs.append((is_right, f"{span.since:%Y-%m-%d %H:%M} to {span.until:%Y-%m-%d %H:%M}"))
    return row.predictions(outputs, is_labelled=row.span is not None)


def _read_span(row: TimeExpression) -> BeliefPeriod | None:
    if row.sort.startswith(_STATEMENT):
        mentions = mentions_in(row.text, row.now)
        return mentions[0].span if mentions else None
    time_range = parse_time_range(row.text, row.now)
    return time_range.period if time_range else None


def _is_near(span: BeliefPeriod, labelled: BeliefPeriod) -> bool:
    is_open = labelled.since == EARLIEST
    off = DAY if is_open else max((labelled.until - labelled.since) / 4, _TOLERANCE_MIN)
    return abs(span.since - labelled.since) <= off and abs(span.until - labelled.until) <= off


TEXT_RULES: Final[Mapping[str, TextRule]] = {
    "atomizer": TextRule(
        title="Causes",
        data=(
            "{rows} sentences written for it, {negatives} of them without a cause: atoms.jsonl by"
            " how they state a cause, incidents.jsonl in the style of incident reports and of chat."
            " An atom is right if the words that name the cause are on its side and those that name"
            " the effect on the other. All were labelled before they were tried, by the author of"
            " the patterns, and the patterns were tuned on the half calibrate; other authors' texts"
            " will do worse."
        ),
        read=read_cause_sentences,
        predict=_predict_causes,
        count=lambda rows: {"rows": len(rows), "negatives": sum(row.cause is None for row in rows)},
    ),
    "captures": TextRule(
        title="Captures",
        data=(
            "captures.jsonl: {rows} replies of agents and prompts, with {store} statements that"
            " outlive their turn and {never} that do not: quoted, reported, asked or only weighed."
            " Said is what the capture mode turns stores, in the words of the turn. All were"
            " written and labelled by one hand without sight of the rules; what is quoted was tuned"
            " on kinds of quotation, not on single turns."
        ),
        read=read_captured_turns,
        predict=_predict_capture,
        count=lambda rows: {
            "rows": len(rows),
            "store": sum(len(row.store) for row in rows),
            "never": sum(len(row.never) for row in rows),
        },
    ),
    "conflicts": TextRule(
        title="Conflicts",
        data=(
            "conflicts.jsonl: {own} pairs written for it, and pairs.jsonl: {reused} pairs of facts,"
            " where near misses and paraphrases count as no conflict. Contradictions and updates"
            " are conflicts: only time tells one from the other, and the rule does not see it. All"
            " were written by one hand, and the rule was chosen on the half calibrate."
        ),
        read=read_statements,
        predict=_predict_conflict,
        count=lambda pairs: {
            "own": sum(not pair.is_reused for pair in pairs),
            "reused": sum(pair.is_reused for pair in pairs),
        },
    ),
    "preferences": TextRule(
        title="Preferences",
        data=(
            "preferences.jsonl: {rows} sentences written for it, {negatives} of them neither an"
            " instruction nor a preference. A positive is right when its own sort is recognised, a"
            " negative when none is. All were written by one hand and labelled before they were"
            " tried; the rules were refined on the half calibrate."
        ),
        read=read_guidance_sentences,
        predict=_predict_guidance,
        count=lambda rows: {
            "rows": len(rows),
            "negatives": sum(row.label == _NO_GUIDANCE for row in rows),
        },
    ),
    "secrets": TextRule(
        title="Secrets",
        data=(
            "secrets.jsonl: {secrets} texts with an invented credential and {harmless} that only"
            " speak of such, in English, German, Spanish, French and Chinese, written without sight"
            " of the rules, which were chosen on the half calibrate; and the {others} texts of the"
            " other evaluations, of which none has a credential. Said is what is refused. With"
            " on_secret=redact {left} values of those that are found stay in the text. Failures of"
            " the half check are not listed."
        ),
        read=read_secret_texts,
        predict=_predict_secret,
        count=_count_secrets,
    ),
    "times": TextRule(
        title="Times",
        data=(
            "times.jsonl: {rows} questions and statements written for it, each with its time;"
            " {negatives} of them name none. A span is right when both ends lie within a quarter of"
            " its length, or within an hour; where it is open, within a day. All were written by"
            " one hand, and the first 222 before the table that reads them; it was finished while"
            " their failures were seen, so that other writers' questions will do worse. The sort"
            " later came after the table. Statements were written before they were read at all; one"
            " failure of their check half led to a fix."
        ),
        read=read_time_expressions,
        predict=_predict_time,
        count=lambda rows: {"rows": len(rows), "negatives": sum(row.span is None for row in rows)},
    ),
}
