"""OpenBrain: dumps by the real mariadb-dump of a table made after its public migrations."""

from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest
from import_samples import IMPORTERS, SAMPLES, by_ref, kinds, omitted, only, read

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError
from commonbrain.transfer.importer import SourceRelation, Unreadable

OPENBRAIN = SAMPLES / "openbrain"
ID = "019c0000-0000-7000-8000-00000000000"


def test_memories_of_a_dump_are_imported_with_their_metadata() -> None:
    pieces = read("openbrain", OPENBRAIN / "dump.sql")
    assert kinds(pieces) == {"fact": 3, "incident": 1, "rule": 1, "event": 1}
    drafts = by_ref(pieces)
    decision = drafts[f"{ID}2"]
    assert (decision.label, decision.author, decision.project) == ("decision", "charon", "eaas")
    assert (decision.confidence, decision.tags) == (0.9, ("verdict", "model"))
    assert decision.occurred_at == decision.believed_since
    assert decision.occurred_at is not None
    assert decision.occurred_at.isoformat() == "2026-03-05T10:00:00+00:00"
    bug = drafts[f"{ID}3"]
    assert bug.body == (
        'LEM\'s "emotional_register" was blind to negative emotions;\n'
        "fixed by 8 pattern groups. INSERT INTO `brain_memories` VALUES (1);"
    )
    assert (bug.label, bug.tags) == (
        "bug",
        ("scoring", "lem", "source:ingest:plans", "org:core"),
    )
    rule = drafts[f"{ID}4"]
    assert (rule.label, rule.severity, rule.project) == ("convention", "BLOCKER", None)
    event = drafts[f"{ID}5"]
    assert event.body == "Der Lauf heute nacht war grün, 港 😀 und C:\\temp."
    assert event.expires_at is not None
    assert drafts[f"{ID}7"].label == "service"


def test_corrected_memory_becomes_a_relation_and_a_deleted_one_is_counted() -> None:
    pieces = read("openbrain", OPENBRAIN / "dump.sql")
    (relation,) = only(SourceRelation, pieces)
    assert (relation.first, relation.second) == (f"openbrain#{ID}2", f"openbrain#{ID}1")
    assert relation.type is None
    assert relation.at == datetime(2026, 3, 5, 10, tzinfo=UTC)
    assert omitted(pieces) == {
        "deleted memories": 1,
        "statements for other tables": 1,
        "times of the last change": 6,
    }
    assert f"{ID}6" not in by_ref(pieces)


def test_values_of_openbrain_that_a_later_version_adds_are_counted_as_omitted(
    tmp_path: Path,
) -> None:
    later = tmp_path / "dump.sql"
    text = (OPENBRAIN / "dump.sql").read_text("utf-8")
    text = text.replace("`source` varchar", "`mood` varchar")
    created = "'2026-03-08 10:00:00'"
    text = text.replace(
        f"'2031-01-01 00:00:00',NULL,{created},{created}",
        f"'2031-01-01 00:00:00',{created},{created},{created}",
    )
    later.write_text(text, "utf-8")
    counts = omitted(read("openbrain", later))
    assert counts["values of the unknown column mood"] == 3
    assert counts["times of the vectors"] == 1


def test_dump_with_one_statement_per_row_is_read_the_same() -> None:
    extended = read("openbrain", OPENBRAIN / "dump.sql")
    single = read("openbrain", OPENBRAIN / "one_line.sql")
    assert by_ref(single) == by_ref(extended)
    assert only(SourceRelation, single) == only(SourceRelation, extended)


def test_dump_with_all_rows_on_one_line_is_read_the_same(tmp_path: Path) -> None:
    """As mysqldump writes it."""
    dump = (OPENBRAIN / "dump.sql").read_text("utf-8")
    joined = tmp_path / "mysql.sql"
    joined.write_text(dump.replace("VALUES\n(", "VALUES (").replace("),\n(", "),("), "utf-8")
    assert by_ref(read("openbrain", joined)) == by_ref(read("openbrain", OPENBRAIN / "dump.sql"))


def test_importing_from_openbrain_twice_stores_each_memory_once(brain: Brain) -> None:
    dump = OPENBRAIN / "dump.sql"
    assert brain.import_("openbrain", dump, dry_run=True).stored == 6
    assert brain.status().memories == 0
    first = brain.import_("openbrain", dump)
    assert (first.read, first.stored, first.rejected, first.unreadable) == (6, 6, 0, 0)
    assert first.carried["supersessions"] == 1
    again = brain.import_("openbrain", dump)
    assert (again.stored, again.exists) == (0, 6)
    bodies = {item.body for item in brain.recall("How are verdicts classified?").items}
    assert "Verdicts are classified by the small model." not in bodies


def test_workspace_must_be_named_if_a_dump_has_several(tmp_path: Path) -> None:
    dump = tmp_path / "dump.sql"
    text = (OPENBRAIN / "dump.sql").read_text("utf-8")
    dump.write_text(text.replace(f"'{ID}7',1,", f"'{ID}7',2,"), "utf-8")
    with pytest.raises(InvalidInputError, match="2 workspaces") as refused:
        read("openbrain", dump)
    assert "dump.sql#1" in (refused.value.hint or "")
    pieces = read("openbrain", tmp_path / "dump.sql#2")
    assert list(by_ref(pieces)) == [f"{ID}7"]
    assert omitted(pieces)["memories of other workspaces"] == 6
    with pytest.raises(InvalidInputError, match="no workspace"):
        read("openbrain", tmp_path / "dump.sql#9")


def test_damaged_row_is_reported_with_its_line_and_the_others_are_read(tmp_path: Path) -> None:
    torn = tmp_path / "dump.sql"
    text = (OPENBRAIN / "dump.sql").read_text("utf-8")
    torn.write_text(text.replace("'Never commit generated code.',NULL", "'Never commit"), "utf-8")
    pieces = read("openbrain", torn)
    (unreadable,) = only(Unreadable, pieces)
    assert unreadable.where.startswith("line ")
    assert {f"{ID}3", f"{ID}5"} <= set(by_ref(pieces))


def test_rows_of_openbrain_are_read_one_by_one(tmp_path: Path) -> None:
    dump = tmp_path / "dump.sql"
    head, insert, _ = (
        (OPENBRAIN / "dump.sql")
        .read_text("utf-8")
        .partition("INSERT INTO `brain_memories` VALUES\n")
    )
    rows = (
        f"('id-{n}',1,NULL,'lem','fact','Berth {n} is {n} metres long.','[]',NULL,0.8,NULL,NULL,"
        "NULL,NULL,'2026-03-01 10:00:00',NULL,NULL)"
        for n in range(600)
    )
    dump.write_text(head + insert + ",\n".join(rows) + ";\n", "utf-8")
    first = list(islice(IMPORTERS["openbrain"].read(dump), 3))
    assert first[-1].progress < 0.1
    assert len(by_ref(read("openbrain", dump))) == 600


def test_foreign_dump_is_refused_by_openbrain_with_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "other.sql").write_text("INSERT INTO `orders` VALUES (1);\n")
    (tmp_path / "empty.sql").write_text("")
    for name in ("other.sql", "empty.sql", "none.sql"):
        with pytest.raises(InvalidInputError) as refused:
            read("openbrain", tmp_path / name)
        assert "mariadb-dump" in (refused.value.hint or "")
    assert list(IMPORTERS["openbrain"].find(tmp_path)) == []
