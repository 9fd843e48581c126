"""The reading of phrases of time, measured on labelled questions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from commonbrain_models.calibration import split_of

from commonbrain.model.revision import BeliefPeriod
from commonbrain.text.time_expressions.calendar import DAY, EARLIEST
from commonbrain.text.time_expressions.mentions import mentions_in
from commonbrain.text.time_expressions.parser import parse_time_range
from commonbrain_evals.labelled import LabelledReport, Prediction, report
from commonbrain_evals.rows import read_rows

_DATA: Final = (
    "times.jsonl: {rows} questions and statements written for it, each with its time; {negatives}"
    " of them name none. A span is right when both ends lie within a quarter of its length, or"
    " within an hour; where it is open, within a day. All were written by one hand, and the first"
    " 222 before the table that reads them; it was finished while their failures were seen, so"
    " that other writers' questions will do worse. The sort later came after the table. Statements"
    " were written before they were read at all; one failure of their check half led to a fix."
)
_STATEMENT: Final = "statement"
"""The sorts of statements begin with it; they are read as memories are."""
_NEAR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeExpressionCase:
    """A question or statement, its time, and the span that it names; None when it names none."""

    sort: str
    """The sort of phrase, or what in it only looks like one."""
    text: str
    now: datetime
    span: BeliefPeriod | None


def read_questions() -> Sequence[TimeExpressionCase]:
    """Read the questions that ship with the package, in the order of the file."""
    return [
        TimeExpressionCase(
            sort=row["sort"],
            text=row["text"],
            now=_utc(row["now"]),
            span=BeliefPeriod(
                since=_utc(row["since"]) if row["since"] else EARLIEST, until=_utc(row["until"])
            )
            if "until" in row
            else None,
        )
        for row in read_rows("times.jsonl")
    ]


def evaluate(questions: Sequence[TimeExpressionCase]) -> LabelledReport:
    """Read every question and hold what comes out against its label."""
    negatives = sum(one.span is None for one in questions)
    return report(
        [prediction for one in questions for prediction in _predictions(one)],
        title="Times",
        data=_DATA.format(rows=len(questions), negatives=negatives),
    )


def _predictions(question: TimeExpressionCase) -> Iterator[Prediction]:
    """Yield a prediction for the span that was read, and one for a span that was not."""
    span = _read_span(question)
    is_right = span is not None and _is_right(span, question.span)
    if span is not None:
        yield _prediction(question, predicted=True, expected=is_right, result=_format_span(span))
    if question.span is not None and not is_right:
        yield _prediction(question, predicted=False, expected=True)
    elif span is None:
        yield _prediction(question, predicted=False, expected=False)


def _read_span(question: TimeExpressionCase) -> BeliefPeriod | None:
    if question.sort.startswith(_STATEMENT):
        mentions = mentions_in(question.text, question.now)
        return mentions[0].span if mentions else None
    time_range = parse_time_range(question.text, question.now)
    return time_range.period if time_range else None


def _prediction(
    question: TimeExpressionCase, *, predicted: bool, expected: bool, result: str = ""
) -> Prediction:
    half = split_of(question.text)
    return Prediction(
        sort=question.sort,
        half=half,
        text=question.text,
        predicted=predicted,
        expected=expected,
        result=result,
    )


def _format_span(span: BeliefPeriod) -> str:
    return f"{span.since:%Y-%m-%d %H:%M} to {span.until:%Y-%m-%d %H:%M}"


def _is_right(read_span: BeliefPeriod, span: BeliefPeriod | None) -> bool:
    if span is None:
        return False
    is_open = span.since == EARLIEST
    off = DAY if is_open else max((span.until - span.since) / 4, _NEAR)
    return abs(read_span.since - span.since) <= off and abs(read_span.until - span.until) <= off


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
