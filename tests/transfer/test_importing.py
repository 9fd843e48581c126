from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError, UnavailableError
from commonbrain.model.kinds import MessageDetail
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.testing.builders import a_brain
from commonbrain.transfer.importer import (
    DetectedSource,
    Importer,
    ImportItem,
    Unreadable,
    file_found,
)
from commonbrain.transfer.imports import ImportReport
from tests.asking import bodies, stored
from tests.claude_sessions import write_session


@dataclass(frozen=True, slots=True)
class Lines(Importer):
    """A format of one memory a line: `kind: text`; a line without a kind is unreadable."""

    name: str = "lines"
    purpose: str = "One memory a line"
    breaks_after: int | None = None
    """After so many pieces the source goes away."""

    def find(self, home: Path) -> Iterator[DetectedSource]:
        return file_found(home / "lines.txt")

    def read(self, source: Path) -> Iterator[ImportItem]:
        if not source.exists():
            raise InvalidInputError(f"There is no file {source}.", hint="Check the path.")
        lines = source.read_text("utf-8").splitlines()
        return (self._piece(n, lines) for n in range(len(lines)))

    def _piece(self, n: int, lines: list[str]) -> ImportItem:
        if n == self.breaks_after:
            raise UnavailableError("The disk was unplugged.")
        kind, parted, text = lines[n].partition(": ")
        where = f"line {n + 1}"
        content = Draft(
            body=text,
            kind=kind,
            project="suggested",
            source_ref=where,
            thread=ThreadRef(key=text, subject=text) if kind == "message" else None,
            detail=MessageDetail(sender="bob") if kind == "message" else None,
        )
        missing = Unreadable(where=where, reason="it names no kind")
        return ImportItem(content=content if parted else missing, progress=(n + 1) / len(lines))


def importing(brain: Brain, importer: Importer | None = None) -> Brain:
    """Give a brain that knows the format."""
    services = replace(brain.services, importers=lambda: {"lines": importer or Lines()})
    return Brain(services, brain.caller)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.txt"
    path.write_text(
        "fact: The nightly build runs on two cores\n"
        "fact: The nightly build, it runs on two cores\n"
        "fact: the nightly build runs on two cores\n"
        "no kind here\n"
        "fact: 42\n"
        "gossip: Zebras live here\n"
        "event: Deploy went out\n"
        "event: Deploy went out\n",
        "utf-8",
    )
    return path


def outcomes(report: ImportReport) -> int:
    return sum(
        (report.stored, report.exists, report.quarantined, report.rejected, report.unreadable)
    )


@pytest.mark.requirement("MG-07", "WP-01")
def test_every_imported_piece_is_counted_in_the_report(brain: Brain, source: Path) -> None:
    report = importing(brain).import_("lines", source)
    assert (report.read, report.stored, report.exists) == (8, 4, 1)
    assert (report.rejected, report.unreadable, report.progress) == (2, 1, 1.0)
    assert outcomes(report) == report.read
    assert [refusal.where for refusal in report.refusals] == ["line 4", "line 5", "line 6"]
    assert all(refusal.reason for refusal in report.refusals)


@pytest.mark.requirement("MG-07")
def test_importing_a_source_twice_stores_nothing_twice(brain: Brain, source: Path) -> None:
    first = importing(brain).import_("lines", source)
    second = importing(brain).import_("lines", source)
    assert (second.stored, second.exists) == (0, first.stored + first.exists)
    assert brain.status().memories == first.stored


def test_import_refuses_exact_duplicates_only(brain: Brain, source: Path) -> None:
    importing(brain).import_("lines", source)
    assert "The nightly build, it runs on two cores" in bodies(brain, "nightly build")


@pytest.mark.requirement("MG-06")
def test_dry_run_of_an_import_stores_nothing_and_reports_refusals(
    brain: Brain, source: Path
) -> None:
    stored(brain, "Deploy went out", kind="event", project="suggested", source_ref="line 7")
    dry = importing(brain).import_("lines", source, dry_run=True)
    assert brain.status().memories == 1
    real = importing(brain).import_("lines", source)
    assert outcomes(dry) == dry.read == real.read
    assert dry.refusals == real.refusals
    assert (dry.stored, dry.exists) == (real.stored, real.exists)


def test_dry_run_counts_equal_texts_of_a_source_as_the_import_does(
    brain: Brain, tmp_path: Path
) -> None:
    source = tmp_path / "long.txt"
    fill = [f"fact: Comet {n} has a tail\n" for n in range(80)]
    twice = ["fact: The oven is hot\n", "event: Deploy went out\n", "message: Good morning\n"]
    source.write_text("".join([*twice, *fill, *twice, "fact:  the  oven is hot\n"]), "utf-8")
    dry = importing(brain).import_("lines", source, dry_run=True)
    real = importing(brain).import_("lines", source)
    assert (dry.stored, dry.exists) == (real.stored, real.exists) == (85, 2)
    assert dry.kinds == real.kinds


def test_given_project_overrides_the_suggested_project(brain: Brain, source: Path) -> None:
    importing(brain).import_("lines", source, project="api")
    assert {item.project for item in brain.recall().items} == {"api"}


def test_interrupted_import_continues_where_it_stopped(brain: Brain, tmp_path: Path) -> None:
    source = tmp_path / "long.txt"
    source.write_text("".join(f"event: Comet {n} passed\n" for n in range(200)), "utf-8")
    with pytest.raises(UnavailableError, match="unplugged"):
        importing(brain, Lines(breaks_after=150)).import_("lines", source)
    assert brain.status().memories == 128
    report = importing(brain).import_("lines", source)
    assert (report.read, report.exists, report.stored) == (200, 128, 72)


def test_import_reports_progress_after_every_batch(brain: Brain, tmp_path: Path) -> None:
    source = tmp_path / "long.txt"
    source.write_text("".join(f"event: Comet {n} passed\n" for n in range(130)), "utf-8")
    reports: list[ImportReport] = []
    importing(brain).import_("lines", source, on_progress=reports.append)
    assert [report.read for report in reports] == [64, 128, 130]
    assert [report.progress for report in reports] == [64 / 130, 128 / 130, 1.0]


def test_text_in_two_batches_is_stored_once(brain: Brain, tmp_path: Path) -> None:
    # The second batch is prepared while the first is not stored yet.
    source = tmp_path / "long.txt"
    lines = [f"fact: Comet {n} has a tail\n" for n in range(64)]
    source.write_text("".join([*lines, lines[0]]), "utf-8")
    report = importing(brain).import_("lines", source)
    assert (report.stored, report.exists) == (64, 1)


def test_stopped_import_stores_no_further_batch(brain: Brain, tmp_path: Path) -> None:
    def stop(_report: ImportReport) -> None:
        raise UnavailableError("stopped")

    source = tmp_path / "long.txt"
    source.write_text("".join(f"event: Comet {n} passed\n" for n in range(200)), "utf-8")
    with pytest.raises(UnavailableError, match="stopped"):
        importing(brain).import_("lines", source, on_progress=stop)
    assert brain.status().memories == 64


def test_refusals_shown_are_few_and_counted_in_full(brain: Brain, tmp_path: Path) -> None:
    source = tmp_path / "bad.txt"
    source.write_text("nothing\n" * 150, "utf-8")
    report = importing(brain).import_("lines", source)
    assert (report.unreadable, len(report.refusals)) == (150, 100)


def test_piece_with_too_long_a_name_does_not_stop_the_import(brain: Brain, source: Path) -> None:
    report = importing(brain).import_("lines", source, project="x" * 129)
    assert (report.rejected, report.unreadable, report.stored) == (7, 1, 0)


class Thrice:
    """Chance that gives every number three times before the next."""

    def __init__(self) -> None:
        self.drawn = 0

    def bits(self, count: int) -> int:
        self.drawn += 1
        return self.drawn // 3 % (1 << count)


def test_threads_whose_random_ids_collide_stay_separate(path: Path, tmp_path: Path) -> None:
    source = tmp_path / "chat.txt"
    source.write_text("".join(f"message: Topic {n}\n" for n in range(20)), "utf-8")
    with a_brain(path, random_source=Thrice()) as brain:
        assert importing(brain).import_("lines", source).stored == 20
        matches = brain.recall("Topic", max_items=20, max_tokens=32_000).items
        saved = {brain.get(item.id).detail["thread_id"] for item in matches}
    assert len(saved) == len(matches) == 20


def test_unknown_format_and_missing_source_are_refused(brain: Brain, source: Path) -> None:
    with pytest.raises(InvalidInputError, match="Choose one of lines"):
        importing(brain).import_("tablets", source)
    with pytest.raises(InvalidInputError, match="no file"):
        importing(brain).import_("lines", source.with_name("gone.txt"))


@pytest.mark.requirement("MG-02")
def test_memory_files_of_every_project_become_memories_that_recall_finds(
    brain: Brain, tmp_path: Path
) -> None:
    projects = tmp_path / ".claude" / "projects"
    berths = (
        "- Never book a berth twice\n- The tide table is in Redis\n- Ann is the pilot on Mondays"
    )
    for flat, text in (("-harbour", berths), ("-bakery", "The oven needs an hour to heat up.")):
        file = projects / flat / "memory" / "MEMORY.md"
        file.parent.mkdir(parents=True)
        file.write_text(f"# Notes\n\n{text}\n", "utf-8")
    report = brain.import_("markdown", projects)
    assert (report.read, report.stored) == (4, 4)
    assert [item.project for item in brain.recall("heat up the oven").items] == ["bakery"]
    [rule] = brain.recall("book a berth", project="harbour", max_items=1).items
    assert (rule.kind, rule.body) == ("rule", "Notes:\nNever book a berth twice")
    assert (rule.source_ref or "").startswith("-harbour/memory/MEMORY.md#notes:")


def test_growing_list_of_incidents_adds_only_the_new_incident(brain: Brain, tmp_path: Path) -> None:
    source, old = tmp_path / "INCIDENTS.md", "- The crane fell over in the storm of March\n"
    source.write_text(f"# Incidents\n\n{old}", "utf-8")
    assert brain.import_("markdown", source).kinds == {"incident": 1}
    source.write_text(f"# Incidents\n\n- The lock jammed at noon in April\n{old}", "utf-8")
    report = brain.import_("markdown", source)
    assert (report.stored, report.exists) == (1, 1)


def test_import_counts_the_parts_of_split_texts(tmp_path: Path) -> None:
    path = write_session(tmp_path / "chat.jsonl", "word " * 5_000, "short")
    with a_brain(tmp_path / "brain.db") as brain:
        report = brain.import_("claude-code", path)

    assert (report.parts, report.stored) == (2, 3)


@pytest.mark.requirement("ST-10", "MG-01")
def test_import_does_not_change_its_source(brain: Brain, tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    source, text = folder / "MEMORY.md", "# Rules\n\n- Never push to main without a review.\n"
    source.write_text(text)
    before = source.stat()

    assert brain.import_("markdown", source).stored == 1

    after = source.stat()
    assert source.read_text() == text
    assert (after.st_mtime_ns, after.st_mode) == (before.st_mtime_ns, before.st_mode)
    assert list(folder.iterdir()) == [source]
