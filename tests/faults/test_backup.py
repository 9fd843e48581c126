"""Backup and restore: whole while others write, verified, and never a mixture."""

import os
import stat
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

import commonbrain
from commonbrain import InvalidInputError, StoreCorruptError, UnavailableError
from commonbrain.client import Brain
from commonbrain.storage.interface import RestoreResult, ignore_progress
from commonbrain.storage.sqlite.backup import plan_restore, put_in_place
from commonbrain.storage.sqlite.driver import driver
from commonbrain.testing.builders import FakeClock, a_brain
from tests.faults.mounts import small_disk
from tests.faults.test_processes import acknowledged, assert_all_there, start_together
from tests.faults.workers import worker, write

KETTLE = "The kettle is in the blue cupboard."
WRITERS = 2
HEARD = 4


@pytest.fixture
def copy(path: Path) -> Path:
    return path.with_name("brain.bak")


def restored(file: Path, store: Path, *, digest: str | None = None) -> RestoreResult:
    return put_in_place(file, store, digest=digest, clock=FakeClock(), on_progress=ignore_progress)


def a_store(path: Path, *bodies: str) -> list[str]:
    with a_brain(path) as brain:
        done = [brain.remember(body, kind="fact").items[0].id for body in bodies]
    return [id_ for id_ in done if id_]


def test_backup_taken_during_writes_has_all_acknowledged_before(
    path: Path, copy: Path, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        writers = [
            stack.enter_context(worker(write, path, number=number, times=100_000))
            for number in range(WRITERS)
        ]
        start_together(writers)
        replies = [one.hear() or "" for one in writers for _ in range(HEARD)]
        with a_brain(path) as brain:
            done = brain.backup(copy)
        # They wrote on meanwhile, and do so still.
        later = [one.hear() or "" for one in writers for _ in range(HEARD)]
        assert len(acknowledged(later)) == WRITERS * HEARD

    before = acknowledged(replies)
    assert len(before) == WRITERS * HEARD
    other = tmp_path / "elsewhere" / "brain.db"
    placed = restored(copy, other, digest=done.digest)
    with a_brain(other) as brain:
        assert_all_there(brain, before)
        assert brain.status().memories == done.memories == placed.memories
        assert brain.recall("thing1x3").items[0].id in before


def test_backup_is_one_private_file_that_opens_as_a_store(path: Path, copy: Path) -> None:
    (kettle,) = a_store(path, KETTLE)
    fractions: list[float] = []
    with a_brain(path) as brain:
        done = brain.backup(copy, on_progress=fractions.append)
        assert done.memories == 1
        assert done.newest_at == brain.get(kettle).recorded_at

    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert sorted(one.name for one in path.parent.iterdir()) == [
        "brain.bak",
        "brain.db",
        "brain.db.backups",
    ]
    assert done.size_bytes == copy.stat().st_size
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    with a_brain(copy) as brain:
        assert_all_there(brain, [kettle])


def test_deleted_content_is_not_in_a_backup(path: Path, copy: Path) -> None:
    with a_brain(path) as brain:
        brain.remember(KETTLE, kind="fact")
    with closing(driver().connect(str(path))) as raw:
        raw.execute("PRAGMA secure_delete = OFF")
        raw.execute("CREATE TABLE scratch (body TEXT)")
        raw.execute("INSERT INTO scratch VALUES ('a secret that was taken back')")
        raw.commit()
        raw.execute("DELETE FROM scratch")
        raw.commit()
    assert b"a secret that was taken back" in path.read_bytes()
    with a_brain(path) as brain:
        brain.backup(copy)

    assert b"a secret that was taken back" not in copy.read_bytes()
    assert b"blue cupboard" in copy.read_bytes()


def test_backup_replaces_a_file_only_on_request_and_never_the_store(path: Path, copy: Path) -> None:
    copy.write_text("precious")
    with a_brain(path) as brain:
        with pytest.raises(InvalidInputError, match="exists already"):
            brain.backup(copy)
        assert copy.read_text() == "precious"
        assert brain.backup(copy, replace=True).size_bytes > len("precious")
        link = path.with_name("link.db")
        link.symlink_to(path)
        for own in (path, path.with_name("brain.db-wal"), link):
            with pytest.raises(InvalidInputError, match="store itself"):
                brain.backup(own, replace=True)
        with pytest.raises(InvalidInputError, match="folder"):
            brain.backup(path.parent)
        assert brain.doctor().is_sound


def test_backup_onto_a_full_disk_leaves_no_file(path: Path, tmp_path: Path) -> None:
    a_store(path, KETTLE)
    with small_disk(tmp_path / "full", size="64k") as disk, a_brain(path) as brain:
        with pytest.raises(UnavailableError, match=r"full|space"):
            brain.backup(disk / "brain.bak")
        assert list(disk.iterdir()) == []
        assert brain.doctor().is_sound


def test_damaged_store_is_not_backed_up(path: Path, copy: Path) -> None:
    a_store(path, KETTLE)
    with closing(driver().connect(str(path))) as raw:
        raw.execute("PRAGMA writable_schema = ON")
        raw.execute("UPDATE sqlite_master SET rootpage = 2 WHERE name = 'ix_memories_id'")
        raw.commit()
    with a_brain(path) as brain, pytest.raises(StoreCorruptError):
        brain.backup(copy)

    assert [one.name for one in path.parent.iterdir() if "bak" in one.name] == []


def test_restore_saves_the_store_that_it_replaces(path: Path, copy: Path) -> None:
    old = a_store(path, KETTLE)
    with a_brain(path) as brain:
        digest = brain.backup(copy).digest
    a_store(path, "Postgres was chosen for row-level security.")

    plan = plan_restore(copy, path)
    done = restored(copy, path, digest=digest)

    assert plan.goes
    assert (plan.comes.memories, plan.goes.memories) == (1, 2)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with a_brain(path) as brain:
        assert_all_there(brain, old)
        assert brain.status().memories == 1
    assert done.kept
    with a_brain(Path(done.kept)) as before:
        assert before.status().memories == 2
        assert before.doctor().is_sound


def test_restores_at_the_same_time_of_the_clock_lose_no_store_that_they_replace(
    path: Path, copy: Path
) -> None:
    a_store(path, KETTLE)
    with a_brain(path) as brain:
        brain.backup(copy)
        brain.remember("Postgres was chosen for row-level security.", kind="fact")

    replaced_files = [restored(copy, path).kept for _ in range(3)]

    assert len(set(replaced_files)) == 3
    for file, memories in zip(replaced_files, (2, 1, 1), strict=True):
        assert file
        with a_brain(Path(file)) as replaced:
            assert replaced.status().memories == memories


def test_restore_refuses_a_store_that_another_process_has_open(path: Path, copy: Path) -> None:
    (kettle,) = a_store(path, KETTLE)
    with a_brain(path) as brain:
        brain.backup(copy)
    with worker(write, path, number=1, times=100_000) as other:
        start_together([other])
        assert acknowledged([other.hear() or ""])
        with pytest.raises(UnavailableError) as refusal:
            restored(copy, path)
        assert refusal.value.code == "store_in_use"
        assert acknowledged([other.hear() or ""])
    assert not [one for one in path.parent.iterdir() if "before-restore" in one.name]
    assert not [one for one in path.parent.iterdir() if "partial" in one.name]
    with a_brain(path) as brain:
        assert_all_there(brain, [kettle])


def test_restore_saves_all_of_a_damaged_store_and_mixes_nothing(path: Path, copy: Path) -> None:
    (kettle,) = a_store(path, KETTLE)
    with a_brain(path) as brain:
        brain.backup(copy)
    wal = path.with_name("brain.db-wal")
    path.write_bytes(b"not what it was" * 1000)
    wal.write_bytes(b"nor is this")

    plan = plan_restore(copy, path)
    done = restored(copy, path)

    assert plan.goes is None
    assert plan.trouble
    assert done.kept
    assert Path(done.kept).read_bytes() == b"not what it was" * 1000
    assert not wal.exists()
    with a_brain(path) as brain:
        assert_all_there(brain, [kettle])


def test_wal_of_a_lost_store_does_not_enter_the_restored_one(
    path: Path, copy: Path, tmp_path: Path
) -> None:
    (kettle,) = a_store(path, KETTLE)
    with a_brain(path) as brain:
        brain.backup(copy)
        brain.remember("Postgres was chosen for row-level security.", kind="fact")
        wal = path.with_name("brain.db-wal").read_bytes()
    lost = tmp_path / "lost.db"
    lost.with_name("lost.db-wal").write_bytes(wal)

    restored(copy, lost)

    assert wal
    with a_brain(lost) as brain:
        assert_all_there(brain, [kettle])
        assert brain.status().memories == 1


Spoil = Callable[[Path], object]
FOREIGN: list[tuple[Spoil, type[Exception]]] = [
    (lambda file: file.write_bytes(b"This is a letter to my aunt. " * 200), StoreCorruptError),
    (lambda file: file.write_bytes(b""), StoreCorruptError),
    (lambda file: os.truncate(file, file.stat().st_size // 2), StoreCorruptError),
    (lambda file: _run(file, "UPDATE alembic_version SET version_num = '9999'"), StoreCorruptError),
    (lambda file: _run(file, "DROP TABLE spaces"), StoreCorruptError),
    (lambda file: file.unlink(), InvalidInputError),
]


def test_unsound_backup_is_refused_and_the_store_is_unchanged(
    path: Path, copy: Path, subtests: pytest.Subtests
) -> None:
    (kettle,) = a_store(path, KETTLE)
    with a_brain(path) as brain:
        brain.backup(copy)
    before, sound = path.read_bytes(), copy.read_bytes()
    for number, (spoil, error) in enumerate(FOREIGN):
        with subtests.test(number=number, error=error.__name__):
            copy.write_bytes(sound)
            spoil(copy)

            with pytest.raises(error):
                restored(copy, path)

            assert path.read_bytes() == before
    with a_brain(path) as brain:
        assert_all_there(brain, [kettle])


def test_backup_with_another_digest_is_refused(path: Path, copy: Path) -> None:
    a_store(path, KETTLE)
    with a_brain(path) as brain:
        done = brain.backup(copy)
    with pytest.raises(InvalidInputError, match="digest"):
        restored(copy, path, digest=replace(done, digest="0" * 64).digest)


def test_store_is_not_restored_from_itself(path: Path) -> None:
    a_store(path, KETTLE)
    with pytest.raises(InvalidInputError, match="store itself"):
        restored(path, path)


def test_library_backs_up_and_restores(path: Path, copy: Path) -> None:
    with commonbrain.open(path) as brain:
        brain.remember(KETTLE, kind="fact")
        done = brain.backup(copy)
        brain.remember("Postgres was chosen for row-level security.", kind="fact")
    back = commonbrain.restore(copy, path, digest=done.digest)

    with commonbrain.open(path) as brain:
        assert isinstance(brain, Brain)
        assert brain.status().memories == back.memories == 1


def _run(file: Path, statement: str) -> None:
    with closing(driver().connect(str(file), isolation_level=None)) as raw:
        raw.execute("PRAGMA foreign_keys = OFF")
        raw.execute(statement)
