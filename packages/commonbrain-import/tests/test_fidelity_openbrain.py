"""What comes over from OpenBrain, column by column, from a dump of its table."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from fidelity import CarriedOver, Exported, Fate, Left, Used, check_fidelity, exported
from import_samples import SAMPLES
from predecessor_stores import OPENBRAIN, day, dump_openbrain, openbrain_id

from commonbrain.client import Brain


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return dump_openbrain(tmp_path / "dump.sql")


def columns() -> set[str]:
    """Return the columns of the table, as it is made."""
    table = (SAMPLES / "openbrain" / "tables.sql").read_text("utf-8").partition("PRIMARY")[0]
    return {f"brain_memories.{name}" for name in re.findall(r"^ {4}(\w+) ", table, re.MULTILINE)}


def fates_in(store: Exported) -> dict[str, Fate]:
    full, old = (store.memory(f"openbrain#{openbrain_id(number)}") for number in (20, 1))
    newer = store.memory(f"openbrain#{openbrain_id(2)}")
    corrected = (day(1) + timedelta(days=30)).isoformat().replace("+00:00", "Z")
    created = day(20).isoformat().replace("+00:00", "Z")
    expires = day(4000).replace(microsecond=0).isoformat().replace("+00:00", "Z")
    fates: dict[str, Fate] = {
        "id": CarriedOver(f"openbrain#{openbrain_id(20)}", full["source_ref"]),
        "workspace_id": Used("One workspace is read; the source names it."),
        "org": CarriedOver(
            ("org:core",), tuple(one for one in full["tags"] if one.startswith("org"))
        ),
        "agent_id": CarriedOver("virgil", full["agent"]),
        "type": CarriedOver("architecture", full["label"]),
        "content": CarriedOver("In plan 20, the lock has a spare winch.", full["body"]),
        "tags": CarriedOver(
            ("tag20",), tuple(one for one in full["tags"] if one.startswith("tag"))
        ),
        "project": CarriedOver("eaas", full["project"]),
        "confidence": CarriedOver(0.5, full["confidence"]),
        "source": CarriedOver(True, "source:ingest:plans" in full["tags"]),  # noqa: FBT003
        "supersedes_id": CarriedOver(newer["id"], old["superseded_by"]),
        "expires_at": CarriedOver(expires, full["expires_at"]),
        "indexed_at": Left("times of the vectors"),
        "created_at": CarriedOver(
            (created, created), (full["occurred_at"], full["believed_since"])
        ),
        "updated_at": Left("times of the last change"),
        "deleted_at": CarriedOver(corrected, old["superseded_at"]),
    }
    return {f"brain_memories.{name}": fate for name, fate in fates.items()}


@pytest.mark.requirement("MG-25")
def test_each_column_of_openbrain_comes_over_or_is_counted(
    brain: Brain, dump: Path, tmp_path: Path
) -> None:
    report = brain.import_("openbrain", dump)
    assert (report.read, report.stored, report.rejected) == (OPENBRAIN - 1, OPENBRAIN - 1, 0)
    assert (report.carried["supersessions"], report.omitted["deleted memories"]) == (4, 1)
    fates = fates_in(exported(brain, tmp_path / "store.jsonl"))
    check_fidelity(columns(), fates=fates, report=report)
