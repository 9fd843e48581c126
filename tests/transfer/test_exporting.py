import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.kinds import Kind, MessageDetail, RuleDetail, TaskDetail
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.model.scope import Caller, Role, Scope
from commonbrain.testing.builders import NOON, FakeClock, SeededRandom, a_brain
from commonbrain.transfer.archive import read_archive
from commonbrain.transfer.importer import Unreadable
from tests.storage.store_steps import a_link

Opens = Callable[[str], Brain]


@pytest.fixture
def open_brain(tmp_path: Path) -> Opens:
    seeds = iter(range(99))
    return lambda name: a_brain(
        tmp_path / f"{name}.db", clock=FakeClock(), random_source=SeededRandom(next(seeds))
    )


def full_of_everything(brain: Brain) -> None:
    """A store with something of every sort in it."""
    thread = ThreadRef(key="chat#1", subject="Monday")
    message = MessageDetail(sender="Bo")
    brain.remember(
        [
            Draft(body="The port is 8080", tags=("net",), occurred_at=NOON - timedelta(days=3)),
            Draft(body="Never force-push", kind="rule", detail=RuleDetail(must_ack=True)),
            Draft(body="Only mine", scope=Scope.PRIVATE),
            Draft(body="Ship it", kind="task", detail=TaskDetail(due_at=NOON, assignee="bo")),
            Draft(body="Grüße 東京 🧠", thread=thread, detail=message, kind="message"),
        ]
    )
    port = brain.recall("port").items[0].id
    brain.revise.supersede(port, "The port is 9090", reason="moved")
    forgotten = brain.remember("The cat sleeps").items[0].id
    assert forgotten is not None
    brain.forget(forgotten, reason="not ours")
    one, other = (ids.parse(ids.MEMORY, one.id) for one in brain.recall(max_items=2).items)
    with brain.services.store.begin(brain.caller.tenant) as tx:
        tx.links.put(a_link(one, other, basis="same day"))
    # What the recalls left is written now, not whenever the journal gets to it.
    brain.services.journal.flush()


def lines(brain: Brain, folder: Path, name: str) -> list[str]:
    brain.export(folder / name)
    return (folder / name).read_text().splitlines()


@pytest.mark.requirement("DO-19")
def test_exported_memories_are_merged_unchanged(open_brain: Opens, tmp_path: Path) -> None:
    one, other = open_brain("one"), open_brain("other")
    full_of_everything(one)

    before = lines(one, tmp_path, "a.jsonl")
    report = other.merge(tmp_path / "a.jsonl")

    assert report.read == report.stored == len(before) - 2
    assert lines(other, tmp_path, "b.jsonl") == before
    assert other.doctor().is_sound
    assert other.recall("which port?").items[0].body == "The port is 9090"


@pytest.mark.requirement("MG-03")
def test_imported_pinned_rule_without_a_trigger_is_shown_at_boot(
    open_brain: Opens, tmp_path: Path
) -> None:
    one, other = open_brain("one"), open_brain("other")
    pinned = one.remember("Never push to main.", kind="rule", severity="BLOCKER").items[0].id
    one.revise.pin(str(pinned))
    one.remember("Never log a password.", kind="rule", severity="BLOCKER")
    before = [rule.headline for rule in one.boot().blockers]

    lines(one, tmp_path, "a.jsonl")
    other.merge(tmp_path / "a.jsonl")

    assert [rule.headline for rule in other.boot().blockers] == before
    assert before[0] == "Never push to main."


def test_stores_that_merge_each_other_become_equal(open_brain: Opens, tmp_path: Path) -> None:
    one, other = open_brain("one"), open_brain("other")
    full_of_everything(one)
    full_of_everything(other)

    one.export(tmp_path / "one.jsonl")
    other.merge(tmp_path / "one.jsonl")
    other.export(tmp_path / "other.jsonl")
    one.merge(tmp_path / "other.jsonl")

    assert sorted(lines(one, tmp_path, "x")) == sorted(lines(other, tmp_path, "y"))
    assert one.doctor().is_sound
    assert other.doctor().is_sound


def test_later_state_of_a_shared_memory_wins_in_both_stores(
    open_brain: Opens, tmp_path: Path
) -> None:
    one, other = open_brain("one"), open_brain("other")
    shared = one.remember("The port is 8080").items[0].id
    assert shared is not None
    one.export(tmp_path / "shared")
    other.merge(tmp_path / "shared")
    other.forget(shared, reason="gone")
    other.export(tmp_path / "forgotten")

    report = one.merge(tmp_path / "forgotten")

    assert report.changed == 1
    assert one.recall("port").items == ()
    assert one.merge(tmp_path / "shared").changed == 0
    assert one.recall("port").items == ()


def test_merging_an_export_again_changes_nothing(open_brain: Opens, tmp_path: Path) -> None:
    one, other = open_brain("one"), open_brain("other")
    full_of_everything(one)
    one.export(tmp_path / "a")
    first = other.merge(tmp_path / "a")

    again = other.merge(tmp_path / "a")

    assert (again.stored, again.changed, again.exists) == (0, 0, first.read)


def test_dry_run_of_a_merge_counts_new_memories_and_stores_nothing(
    open_brain: Opens, tmp_path: Path
) -> None:
    one, other = open_brain("one"), open_brain("other")
    full_of_everything(one)
    one.export(tmp_path / "a")

    report = other.merge(tmp_path / "a", dry_run=True)

    assert report.stored == report.read > 0
    assert other.status().memories == 0


def test_truncated_export_is_recognised_and_can_be_merged_again(
    open_brain: Opens, tmp_path: Path
) -> None:
    one, other = open_brain("one"), open_brain("other")
    full_of_everything(one)
    export = lines(one, tmp_path, "a")
    (tmp_path / "cut").write_text("\n".join(export[:5]) + "\n")

    with pytest.raises(InvalidInputError, match="cut short"):
        other.merge(tmp_path / "cut")
    other.merge(tmp_path / "a")

    assert lines(other, tmp_path, "b") == export


def test_unreadable_lines_of_a_merge_are_counted_and_located_without_their_text(
    open_brain: Opens, tmp_path: Path
) -> None:
    records: list[object] = [
        {"commonbrain": {"version": 1}},
        {"memory": {"id": "mem_0000000000001", "kind": "secret-kind", "body": "hush"}},
        {"nonsense": {}},
        ["hush"],
        {"memory": "hush"},
        {"end": {"records": 4}},
    ]
    (tmp_path / "a").write_text("\n".join(json.dumps(line) for line in records) + "\n")

    report = open_brain("one").merge(tmp_path / "a")

    assert report.unreadable == report.read == 4
    assert [refusal.where for refusal in report.refusals] == [f"line {n}" for n in (2, 3, 4, 5)]
    assert "hush" not in repr(report)


def test_foreign_and_newer_files_are_not_merged_and_existing_files_not_overwritten(
    open_brain: Opens, tmp_path: Path
) -> None:
    brain = open_brain("one")
    (tmp_path / "foreign").write_text('{"role": "user"}\n')
    (tmp_path / "newer").write_text('{"commonbrain": {"version": 99}}\n')

    with pytest.raises(InvalidInputError, match="not written by"):
        brain.merge(tmp_path / "foreign")
    with pytest.raises(InvalidInputError, match="version 99"):
        brain.merge(tmp_path / "newer")
    with pytest.raises(InvalidInputError, match="exists already"):
        brain.export(tmp_path / "newer")


def test_exported_file_is_private_and_export_and_merge_need_an_admin(
    open_brain: Opens, tmp_path: Path
) -> None:
    brain = open_brain("one")
    brain.export(tmp_path / "a")
    assert (tmp_path / "a").stat().st_mode & 0o077 == 0

    writer = Brain(brain.services, Caller(agent="bo", role=Role.WRITER))
    with pytest.raises(RejectedError, match="for admins"):
        writer.export(tmp_path / "b")
    with pytest.raises(RejectedError, match="for admins"):
        writer.merge(tmp_path / "a")


def test_every_kind_is_exported_and_merged(
    open_brain: Opens, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    one, other = open_brain("one"), open_brain("other")
    for kind in Kind:
        with subtests.test(kind=kind):
            one.remember("As it was told to us", kind=kind)
            before = lines(one, tmp_path, f"{kind}-a")
            other.merge(tmp_path / f"{kind}-a")

            assert lines(other, tmp_path, f"{kind}-b") == before


def test_acknowledgement_is_exported_and_merged(open_brain: Opens, tmp_path: Path) -> None:
    one, other = open_brain("one"), open_brain("other")
    item = one.remember("Rotate the key", kind="task", must_ack=True).items[0].id
    assert item is not None
    bo = one.acting_as(agent="bo", session="s1")
    bo.revise.ack(item, "not_relevant", reason="no key here")
    file = tmp_path / "all.jsonl"
    one.export(str(file))
    other.merge(str(file))
    assert other.acting_as(agent="cy").remember("Tea is at four", kind="fact").items[0].id
    assert other.merge(str(file)).stored == 0


@pytest.mark.requirement("SE-06", "SE-40")
def test_merge_is_blocked_only_by_action_items_of_the_projects_it_writes_to(
    open_brain: Opens, tmp_path: Path
) -> None:
    one, other = open_brain("one"), open_brain("other")
    one.remember("The oven is hot", kind="fact", project="kitchen")
    one.remember("Roses bloom in June", kind="fact", project="garden")
    one.remember("Wash up", kind="task", project="kitchen", must_ack=True)
    file = tmp_path / "all.jsonl"
    one.export(file)
    bo = other.acting_as(agent="bo", session="s1")
    bo.remember("Sweep the yard", kind="task", project="yard", must_ack=True)
    assert other.merge(file, dry_run=True).stored
    assert other.merge(file).stored

    third = open_brain("late")
    bo = third.acting_as(agent="bo", session="s1")
    bo.remember("Water the roses", kind="task", project="garden", must_ack=True)
    with pytest.raises(RejectedError, match="Water the roses") as refusal:
        third.merge(file)
    assert refusal.value.code == "action_items_pending"
    assert third.status().memories == 1
    bo.remember("Sweep the yard", kind="task", project="yard", must_ack=True)
    [item] = [one.id for one in third.recall("roses").items]
    third.revise.ack(item, "will_execute")
    assert third.merge(file).stored


@pytest.mark.requirement("SE-06")
def test_merge_is_blocked_by_an_action_item_without_a_project(
    open_brain: Opens, tmp_path: Path
) -> None:
    one, other = open_brain("one"), open_brain("other")
    one.remember("The oven is hot", kind="fact", project="kitchen")
    one.export(tmp_path / "all.jsonl")
    other.acting_as(agent="bo", session="s1").remember("Rest now", kind="task", must_ack=True)
    with pytest.raises(RejectedError, match="Rest now"):
        other.merge(tmp_path / "all.jsonl")


def test_line_of_an_archive_that_is_nested_too_deep_is_reported(tmp_path: Path) -> None:
    archive = tmp_path / "archive.jsonl"
    archive.write_bytes(
        b'{"commonbrain":{"version":1}}\n' + b"[" * 100_000 + b'\n{"end":{"records":1}}\n'
    )
    (line,) = read_archive(archive)
    assert isinstance(line.content, Unreadable)
