"""What an import carries over in addition to texts: links, replacements, pins, votes, authors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.errors import UnavailableError
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Draft
from commonbrain.model.scope import Trust
from commonbrain.transfer.importer import (
    Content,
    Importer,
    ImportItem,
    OmittedContent,
    SourceRelation,
)
from commonbrain.transfer.imports import (
    FROM_START,
    Import,
    ImportReport,
    ImportSource,
    ResumeOptions,
)
from tests.asking import bodies
from tests.transfer.test_importing import importing


@dataclass(frozen=True, slots=True)
class Given(Importer):
    """A format whose source is a list of pieces."""

    pieces: Sequence[ImportItem]
    name: str = "given"
    purpose: str = "Pieces of a test"
    has_relations: bool = True

    def read(self, source: Path) -> Iterator[ImportItem]:  # noqa: ARG002 it has none
        return iter(self.pieces)


def piece(content: Content) -> ImportItem:
    return ImportItem(content=content, progress=0.5)


def fact(ref: str, text: str, *, author: str | None = None) -> Draft:
    return Draft(body=text, kind="fact", source_ref=ref, author=author)


OLD = fact("a#1", "The shop runs on Postgres 14", author="Ada")
NEW = fact("a#2", "The shop runs on Postgres 16")
OTHER = fact("a#3", "Backups are kept for thirty days")
PIECES = (
    piece(OLD),
    piece(replace(NEW, pinned=True, rating=2)),
    piece(OTHER),
    piece(SourceRelation(first="a#2", second="a#1", type=None)),
    piece(SourceRelation(first="a#3", second="a#2", type=LinkType.DEPENDS_ON)),
    piece(SourceRelation(first="a#3", second="a#9", type=LinkType.RELATES_TO)),
    piece(OmittedContent(what="vectors", count=3)),
)


def run(
    brain: Brain, pieces: Sequence[ImportItem] = PIECES, *, dry_run: bool = False
) -> ImportReport:
    return importing(brain, Given(pieces)).import_("lines", "somewhere", dry_run=dry_run)


def id_of(brain: Brain, text: str) -> str:
    listed = brain.list(states=["active", "superseded"]).memories
    [id_] = [one.id for one in listed if one.headline == text]
    return id_


@pytest.mark.requirement("MG-11")
def test_import_reports_carried_and_omitted_relations(brain: Brain) -> None:
    report = run(brain)
    assert (report.read, report.stored, report.position) == (3, 3, len(PIECES))
    assert report.kinds == {"fact": 3}
    assert report.carried["links"] == report.carried["supersessions"] == 1
    assert report.carried["pins"] == report.carried["votes"] == report.carried["authors"] == 1
    assert report.omitted == {"vectors": 3, "relations of memories that are not in the store": 1}


def test_dry_run_of_an_import_returns_the_report_of_the_import(brain: Brain) -> None:
    dry = run(brain, dry_run=True)
    assert brain.status().memories == 0
    assert dry == run(brain)


def test_memory_superseded_by_an_import_is_not_recalled(brain: Brain) -> None:
    run(brain)
    matches = bodies(brain, "which Postgres does the shop run on?")
    assert NEW.body in matches
    assert OLD.body not in matches
    [now] = brain.list(pinned=True).memories
    assert now.headline == NEW.body
    id_ = ids.parse(ids.MEMORY, now.id)
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        assert tx.memories.get([id_])[id_].rating == 2


@pytest.mark.requirement("MG-11")
def test_provenance_names_the_format_and_the_author(brain: Brain) -> None:
    run(brain)
    old = brain.get(id_of(brain, OLD.body), views=["provenance"]).provenance
    assert old is not None
    assert (old.imported_from, old.author, old.source_ref) == ("lines", "Ada", "a#1")


@pytest.mark.requirement("MG-11")
def test_repeated_import_changes_nothing(brain: Brain) -> None:
    run(brain)
    before = brain.audit().lines
    again = run(brain)
    assert (again.stored, again.exists) == (0, 3)
    assert brain.audit().lines == before


@pytest.mark.requirement("MG-11")
def test_repeated_import_restores_no_superseded_or_forgotten_memory(brain: Brain) -> None:
    run(brain)
    brain.revise.supersede(
        id_of(brain, OTHER.body), "Backups are kept for sixty days", reason="changed"
    )
    brain.forget(id_of(brain, NEW.body), reason="a secret project")
    again = run(brain)
    assert (again.stored, again.exists) == (0, 3)
    assert OTHER.body not in bodies(brain, "backups kept")
    assert NEW.body not in bodies(brain, "Postgres of the shop")


def test_repeated_import_does_not_repeat_an_undone_replacement(brain: Brain) -> None:
    run(brain)
    brain.revise.restore(id_of(brain, OLD.body), reason="it was never upgraded")
    run(brain)
    matches = bodies(brain, "which Postgres does the shop run on?")
    assert OLD.body in matches
    assert NEW.body not in matches


def test_continued_import_links_memories_of_an_earlier_attempt(brain: Brain) -> None:
    filler = [piece(fact(f"f#{n}", f"Comet {n} passed in the night")) for n in range(64)]
    pieces = [*PIECES[:3], *filler, *PIECES[3:]]
    reports: list[ImportReport] = []

    def stop(report: ImportReport) -> None:
        reports.append(report)
        raise UnavailableError("The disk was unplugged.")

    reader = importing(brain, Given(pieces))
    start = Import(reader.services, reader.caller)
    source = ImportSource(format="lines", path=Path("somewhere"))
    with pytest.raises(UnavailableError):
        start.go_on(source, resume=FROM_START, on_progress=stop)
    report = start.go_on(source, resume=ResumeOptions(since=reports[0]))
    assert (report.read, report.stored, report.exists) == (67, 67, 0)
    assert report.carried["links"] == report.carried["supersessions"] == 1


def test_import_report_is_committed_together_with_its_batch(brain: Brain) -> None:
    reader = importing(brain, Given(PIECES))
    start = Import(reader.services, reader.caller)
    source = ImportSource(format="lines", path=Path("somewhere"))

    def fail(_tx: object, report: ImportReport) -> None:
        assert report.carried["links"] == 1
        raise UnavailableError("The disk was unplugged.")

    with pytest.raises(UnavailableError):
        start.go_on(source, resume=ResumeOptions(on_commit=fail))
    assert brain.status().memories == 0
    saved: list[ImportReport] = []
    resume = ResumeOptions(on_commit=lambda _tx, report: saved.append(report))
    report = start.go_on(source, resume=resume)
    assert (report.stored, report.carried["links"]) == (3, 1)
    assert [replace(one, progress=1.0) for one in saved] == [report]


def test_value_that_an_import_restates_later_is_current_again(brain: Brain) -> None:
    again = fact("a#3", OLD.body)
    pieces = [
        piece(OLD),
        piece(NEW),
        piece(again),
        piece(SourceRelation(first="a#2", second="a#1", type=None)),
        piece(SourceRelation(first="a#3", second="a#2", type=None)),
    ]
    for _ in range(2):
        run(brain, pieces)
        matches = bodies(brain, "which Postgres does the shop run on?")
        assert OLD.body in matches
        assert NEW.body not in matches


def test_old_source_does_not_supersede_newer_memories(brain: Brain) -> None:
    brain.remember(OLD.body, kind="fact")
    aged = [
        piece(replace(one, occurred_at=datetime(2019, 1, day, tzinfo=UTC)))
        for day, one in enumerate((OLD, NEW), 1)
    ]
    report = run(brain, [*aged, piece(SourceRelation(first="a#2", second="a#1", type=None))])
    assert report.omitted["supersessions of memories that may not be changed"] == 1
    assert OLD.body in bodies(brain, "which Postgres does the shop run on?")


def test_import_by_an_untrusted_agent_pins_nothing(brain: Brain) -> None:
    web = brain.acting_as(agent="web", trust_ceiling=Trust.UNTRUSTED_WEB)
    run(web)
    assert not brain.list(pinned=True).memories
