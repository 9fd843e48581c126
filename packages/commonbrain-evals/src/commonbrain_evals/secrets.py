"""Credentials in sentences and commands, and texts about them: which does the scanner refuse."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, cast

from commonbrain_models.calibration import CalibrationSplit, split_of

from commonbrain.security.secret_values import redacted
from commonbrain.security.secrets import SecretScanner
from commonbrain_evals.labelled import LabelledReport, Prediction, report
from commonbrain_evals.rows import read_rows

_FILE: Final = "secrets.jsonl"
_OTHERS: Final = (
    *("holding.jsonl", "truth.jsonl", "headlines.jsonl", "prompts.jsonl", "timeline_notes.jsonl"),
    *("incidents.jsonl", "atoms.jsonl", "conflicts.jsonl", "preferences.jsonl", "days.jsonl"),
)
_DATA: Final = (
    "secrets.jsonl: {secrets} texts with an invented credential and {harmless} that only speak of"
    " such, in English, German, Spanish, French and Chinese, written without sight of the rules,"
    " which were chosen on the half calibrate; and the {others} texts of the other evaluations,"
    " of which none has a credential. Said is what is refused. With on_secret=redact {left}"
    " values of those that are found stay in the text. Failures of the half check are not listed."
)


def evaluate() -> LabelledReport:
    """Scan the texts that ship with the package and compare with their labels."""
    scanner = SecretScanner()
    rows = read_rows(_FILE)
    others = list(_other_texts())
    predictions: list[Prediction] = []
    left = 0
    for row in rows:
        secret: str | None = row.get("secret")
        text = row["text"]
        refused = _refused_sort(scanner, text)
        predictions.append(
            Prediction(
                sort=f"{row['sort']} {row['language']}",
                half=CalibrationSplit(row["half"]),
                text=text,
                predicted=refused is not None,
                expected=secret is not None,
                result=refused or "",
                file=_FILE,
            )
        )
        if secret and refused:
            left += secret in redacted(text, scanner.find(text))
    predictions += [
        Prediction(
            sort="other",
            half=half,
            text=text,
            predicted=(refused := _refused_sort(scanner, text)) is not None,
            expected=False,
            result=refused or "",
            file="others",
        )
        for half, text in others
    ]
    secrets = sum("secret" in row for row in rows)
    counts = {"secrets": secrets, "harmless": len(rows) - secrets, "others": len(others)}
    result = report(predictions, title="Secrets", data=_DATA.format(**counts, left=left))
    shown = tuple(one for one in result.failures if one.half is CalibrationSplit.CALIBRATE)
    return replace(result, failures=shown)


def _refused_sort(scanner: SecretScanner, text: str) -> str | None:
    return next((one.sort for one in scanner.find(text) if one.is_certain), None)


def _other_texts() -> Iterator[tuple[CalibrationSplit, str]]:
    for file in _OTHERS:
        for row in read_rows(file):
            for text in _texts(row):
                yield CalibrationSplit(row["half"]) if "half" in row else split_of(text), text


def _texts(value: object) -> Iterator[str]:
    match value:
        case str() if " " in value:
            yield value
        case dict():
            for one in cast("dict[str, object]", value).values():
                yield from _texts(one)
        case list():
            for one in cast("list[object]", value):
                yield from _texts(one)
        case _:
            pass
