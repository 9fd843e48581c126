"""Cited code after an edit: whether the check says what became of it, and where it is now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from commonbrain_models.calibration import CalibrationSplit

from commonbrain.ingestion.citations import cite
from commonbrain.model.citations import (
    CheckedCitation,
    Checkout,
    Citation,
    CitationStatus,
    parse_place,
)
from commonbrain.model.errors import InvalidInputError
from commonbrain.retrieval.citations import CitedCode
from commonbrain.working_tree import Repository, WorkingTree
from commonbrain_evals.labelled import (
    Figure,
    digest_of,
    group_rows,
    read_rows,
    share,
    show_figures,
    show_lines,
)

_EDITS: Final = "citations.jsonl"
_FILES: Final = "cited_files.jsonl"
_DATA: Final = (
    "citations.jsonl: {rows} edits of ten files in Python, TypeScript, Go, Rust and Java, written"
    " and labelled before the rules. right is the share of edits after which a citation is called"
    " same, moved, changed or gone as its label says, and moved code is found on its line. The"
    " rules were tuned on the half calibrate; failures of the half check are not listed."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CitedEdit:
    """An edit of the files, and what it does to the cited code."""

    sort: str
    half: CalibrationSplit
    language: str
    cite: str
    changes: tuple[Mapping[str, Any], ...]
    """Each replaces a text, renames, deletes or adds a file."""
    verdict: CitationStatus
    at: str | None = None
    """Where moved code is now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditJudgement:
    """What was said of one citation."""

    sort: str
    half: CalibrationSplit
    language: str
    cite: str
    expected: str
    reported: str

    @property
    def is_right(self) -> bool:
        """Whether it was said what the label says."""
        return self.reported == self.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class CitationReport:
    """The whole evaluation."""

    data: str
    sha256: str
    figures: tuple[Figure, ...]
    rows: tuple[EditJudgement, ...]


def read_edits() -> tuple[Mapping[str, str], Sequence[CitedEdit]]:
    """Read the files, by path, and their edits."""
    files = {row["path"]: row["text"] for row in read_rows(dict[str, str], _FILES)}
    return files, read_rows(CitedEdit, _EDITS)


def evaluate(files: Mapping[str, str], edits: Sequence[CitedEdit]) -> CitationReport:
    """Cite code, edit the files, and check the citation.

    Raises:
        InvalidInputError: the files do not have what an edit cites.

    """
    rows = [_judge(edit, files) for edit in edits]
    figures = [
        {"half": str(half), "sort": "all", **_counts([row for row in rows if row.half is half])}
        for half in CalibrationSplit
    ]
    figures += [{**names, **_counts(group)} for names, group in group_rows(rows)]
    return CitationReport(
        data=_DATA.format(rows=len(rows)),
        sha256=digest_of(_EDITS, _FILES),
        figures=tuple(figures),
        rows=tuple(rows),
    )


def _counts(rows: Sequence[EditJudgement]) -> Figure:
    return {"edits": len(rows), "right": share(row.is_right for row in rows)}


def _judge(edit: CitedEdit, files: Mapping[str, str]) -> EditJudgement:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        _write(root, files)
        citation = _cited(root, edit.cite)
        for change in edit.changes:
            _change(root, change)
        checked = CitedCode(_tree(root)).check(citation, at=Checkout())
    return EditJudgement(
        sort=edit.sort,
        half=edit.half,
        language=edit.language,
        cite=edit.cite,
        expected=f"{edit.verdict} {edit.at or ''}".strip(),
        reported=_reported(checked),
    )


def _reported(checked: CheckedCitation) -> str:
    at = checked.now_at if checked.status is CitationStatus.MOVED else None
    return f"{checked.status} {at or ''}".strip()


def _tree(root: Path) -> WorkingTree:
    git = root / ".git"
    return WorkingTree(repository=Repository(root=root, git=git, common=git))


def _cited(root: Path, text: str) -> Citation:
    place = parse_place(text)
    citation = place and cite(_tree(root), place)
    if not citation:
        raise InvalidInputError(f"The files do not have {text}.")
    return citation


def _write(root: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")


def _change(root: Path, change: Mapping[str, Any]) -> None:
    place = root / change["file"]
    match change:
        case {"old": old, "new": new}:
            place.write_text(place.read_text("utf-8").replace(old, new), "utf-8")
        case {"rename": to}:
            (root / to).parent.mkdir(parents=True, exist_ok=True)
            place.rename(root / to)
        case {"add": text}:
            _write(root, {change["file"]: text})
        case _:
            place.unlink()


def show_citations(report: CitationReport) -> None:
    """Print the shares by half and sort, and the failures of the half calibrate."""
    show_lines([report.data, f"sha256 {report.sha256}"])
    show_figures("Citations", report.figures, columns=("half", "sort", "edits", "right"))
    show_lines(
        f"{row.language}, {row.sort}: {row.cite} is {row.expected}; reported {row.reported}"
        for row in report.rows
        if row.half is CalibrationSplit.CALIBRATE and not row.is_right
    )
