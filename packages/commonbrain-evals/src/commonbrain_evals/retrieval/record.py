"""What one evaluation leaves behind: one JSON file that can be compared with any other.

It holds figures and ids, and no text of a data set, whose licence may forbid to pass it on.
"""

import hashlib
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

import commonbrain
from commonbrain.folders import default_store
from commonbrain.model.errors import InvalidInputError
from commonbrain_evals.measures import Estimate

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

RecordT = TypeVar("RecordT")

FORMAT: Final = 1
"""Rises when a reader of the file before would misread it."""
TESTED: Final = ("R@1 any", "R@10 all", "nDCG@10")
"""The metrics whose differences are kept of every part that is left out."""
ALL: Final = "all"
"""The category that every question belongs to."""

ByMetric = Mapping[str, Estimate]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What was run: the data by its digest, and everything that decides the figures."""

    dataset: str
    source: str
    """The name of the file or folder, without where it lies."""
    sha256: str
    seed: int
    questions: int | None = None
    conversations: int | None = None
    without: tuple[str, ...] = ()
    form: str = "messages"
    """How turns came into the store."""
    space: str
    """The embedding model and its version, as the store names it."""
    settings: Mapping[str, str | float | None] = field(
        default_factory=dict[str, str | float | None]
    )
    """The settings of the product that bear on what is found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where it ran."""

    processor: str
    cores: int
    platform: str
    python: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long one question took, in milliseconds."""

    p50: float
    p95: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """All that differs when the same is run again."""

    started_at: str
    took_s: float
    memories_per_s: float
    latency_ms: Mapping[str, Latency]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenValue:
    """What a number of tokens buys."""

    tokens: float
    """Packed, on average."""
    evidence: Estimate
    """Share of the questions whose whole evidence is in what was packed."""
    in_part: float
    """Share of those of whose evidence at least excerpts are, which may lack what answers."""
    saved: float
    """Share of the tokens of the whole history that are not needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Abstention:
    """How well a missing answer is recognized, against the questions that have one."""

    asked: int
    """Questions without an answer."""
    abstained: int
    """Of all questions, those that nothing was found for."""
    precision: float
    """Share of the abstentions that were right; 1 where there was none."""
    recall: float
    wrongly: float = 0.0
    """Share of the questions with an answer that were declared to have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One evaluation."""

    format: int = FORMAT
    version: str
    commit: str | None
    setup: Setup
    machine: Machine
    times: Times
    corpora: int
    memories: int
    refused: int
    """Pieces that did not become memories."""
    skipped: int
    """Questions that name no evidence although they have an answer."""
    history_tokens: float
    """Of everything that was said in a corpus, on average over the questions."""
    systems: Mapping[str, Mapping[str, ByMetric]]
    """By system, category and metric."""
    sessions: Mapping[str, ByMetric] = field(default_factory=dict[str, ByMetric])
    """By system, the metrics of the ranking of sessions; empty without sessions."""
    budgets: Mapping[str, Mapping[str, TokenValue]]
    """By system and tokens allowed."""
    abstention: Mapping[str, Abstention]
    ablation: Mapping[str, ByMetric]
    """What is lost or won when one part is left out, by its name."""
    left_out: Mapping[str, Mapping[str, tuple[float, ...]]] = field(
        default_factory=dict[str, Mapping[str, tuple[float, ...]]]
    )
    """By part and metric of `TESTED`, its differences question by question, as `values`."""
    categories: Mapping[str, str]
    """The category of every question that has evidence, by its id, in the order of the values."""
    values: Mapping[str, Mapping[str, tuple[float, ...]]]
    """By system and metric, one value a question."""
    found: Mapping[str, tuple[str, ...]]
    """What recall put first, by question: sources, and none of their text."""


def default_path(dataset: str, *, started_at: str) -> Path:
    """Say where a record is kept unless its caller says otherwise; `started_at` is ISO 8601."""
    timestamp = started_at[:19].replace(":", "").replace("-", "")
    folder = default_store().parent / "evaluations"
    return folder / f"{dataset}-{timestamp}.json"


def write(record: "DataclassInstance", path: Path) -> None:
    """Write a run, or a report of another shape.

    Raises:
        InvalidInputError: the file cannot be written.

    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(record), ensure_ascii=False, indent=1), "utf-8")
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written: {error.strerror}.") from error


def read(path: Path) -> Run:
    """Read a run.

    Raises:
        InvalidInputError: the file cannot be read, is not a run, or is one of another format.

    """
    run = read_as(Run, path)
    if run.format != FORMAT:
        raise InvalidInputError(f"{path.name} is of format {run.format}; {FORMAT} can be read.")
    return run


def read_as(record_type: type[RecordT], path: Path) -> RecordT:
    """Read a run, or a report of another shape.

    Raises:
        InvalidInputError: the file cannot be read, or has another shape.

    """
    try:
        return TypeAdapter(record_type).validate_json(path.read_bytes())
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise InvalidInputError(
            f"{path.name} is no record of an evaluation: {place} {first['msg']}.",
            hint="Give a file that brain eval run has written.",
        ) from None


_WAIT_S = 10
"""Seconds for git to answer."""


def commit() -> str | None:
    """Give the commit of the tree that this code lies in; a `+` says that it was changed since."""
    package = Path(commonbrain.__file__).parent
    root = _git(package, "rev-parse", "--show-toplevel")
    # An installed package may lie in a folder of some other project.
    if root is None or Path(root) / "src" / package.name != package:
        return None
    head = _git(package, "rev-parse", "HEAD")
    return f"{head}+" if head and _git(package, "status", "--porcelain", str(package)) else head


def _git(folder: Path, *arguments: str) -> str | None:
    program = shutil.which("git")
    if program is None:
        return None
    command = [program, "-C", str(folder), *arguments]
    try:
        ran = subprocess.run(  # noqa: S603 a fixed program, in the folder of this package
            command, capture_output=True, check=False, text=True, timeout=_WAIT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ran.stdout.strip() if ran.returncode == 0 else None


def machine() -> Machine:
    """Describe this machine, as far as it is known."""
    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        platform=platform.platform(),
        python=platform.python_version(),
    )


def _processor() -> str:
    try:
        processor_lines = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = [
        line.partition(":")[2].strip()
        for line in processor_lines.splitlines()
        if "model name" in line
    ]
    return names[0] if names else platform.machine()


def digest(files: Sequence[Path]) -> str:
    """Return the SHA-256 of a file, or of the digests of several, in their order."""
    each = [_digest(path) for path in files]
    return each[0] if len(each) == 1 else hashlib.sha256("".join(each).encode()).hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
