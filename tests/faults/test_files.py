"""Faults of the file: a clear error, nothing half written, and what was there stays."""

import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain import CommonbrainError, StoreCorruptError, UnavailableError
from commonbrain.client import Brain
from commonbrain.storage.sqlite.driver import driver
from commonbrain.testing.builders import FakeClock, SeededRandom, a_brain
from tests.faults.mounts import made_read_only, small_disk

KETTLE = "The kettle is in the blue cupboard."
LONG = "Said at length. " * 800
FILES = ("brain.db", "brain.db-wal", "brain.db-shm", "brain.db.acknowledged")


def test_full_disk_refuses_a_write_and_loses_nothing_acknowledged(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", size="2m") as disk:
        path = disk / "brain.db"
        stored: list[str] = []
        with a_brain(path, random_source=SeededRandom(1)) as brain:
            with pytest.raises(UnavailableError, match="full") as refusal:
                stored.extend(filled(brain))
            assert brain.recall("at length").items
        with a_brain(path) as brain:
            assert len(stored) > 5
            assert [brain.get(id_).state for id_ in stored] == ["active"] * len(stored)
            assert brain.status().memories == len(stored)
            assert brain.doctor().is_sound
    assert refusal.value.code == "store_full"


def test_new_store_on_a_full_disk_is_not_left_partial(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", size="64k") as disk:
        for _ in range(2):
            with pytest.raises(UnavailableError, match="full"):
                a_brain(disk / "brain.db")
        assert (disk / "brain.db").stat().st_size <= 4096


@pytest.mark.parametrize("was_killed", [False, True])
def test_read_only_store_is_recalled_from_and_refuses_writes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, was_killed: bool
) -> None:
    with small_disk(tmp_path / "disk", size="4m") as disk:
        path = disk / "brain.db"
        with a_brain(tmp_path / "brain.db") as first:
            id_ = first.remember(KETTLE, kind="fact").items[0].id
            if was_killed:
                _carry(tmp_path / "brain.db", disk)
        if not was_killed:
            _carry(tmp_path / "brain.db", disk)
        with made_read_only(disk), a_brain(path) as brain:
            result = brain.recall("Where is the kettle?")
            assert brain.get(str(id_)).body == KETTLE
            with pytest.raises(UnavailableError, match="read-only") as refusal:
                brain.remember("Nor can this be stored.", kind="fact")
            with caplog.at_level(logging.WARNING):
                brain.services.journal.flush()
            assert brain.status().traces_dropped == 1
            diagnosis = brain.doctor()
            assert brain.backup(tmp_path / "brain.bak").memories == 1

    assert [item.id for item in result.items] == [id_]
    assert refusal.value.code == "store_read_only"
    assert "1 recall traces, 2 accesses," in caplog.text
    assert "read-only" in caplog.text
    assert "Traceback" not in caplog.text
    assert diagnosis.is_sound, diagnosis.findings
    assert "read-only" in next(f.detail for f in diagnosis.findings if f.check == "access")
    with a_brain(tmp_path / "brain.bak") as brain:
        assert brain.recall("Where is the kettle?").items


def test_store_is_not_created_on_a_read_only_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", size="1m") as disk:
        (disk / "empty.db").touch()
        with made_read_only(disk):
            for name in ("brain.db", "deep/brain.db", "empty.db"):
                with pytest.raises(UnavailableError) as refusal:
                    a_brain(disk / name)
                assert refusal.value.hint


def test_reader_of_a_read_only_store_stops_when_another_process_writes_it(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", size="4m") as disk:
        path = disk / "brain.db"
        with a_brain(path) as brain:
            brain.remember(KETTLE, kind="fact")
        with made_read_only(disk):
            reader = a_brain(path)
            assert reader.recall("kettle").items
        with a_brain(path) as brain:
            brain.remember("The kettle moved to the shed.", kind="event")
            with pytest.raises(UnavailableError, match="another process"):
                reader.recall("kettle")
        reader.services.store.close()


Spoil = Callable[[bytearray], object]


def flipped(start: float, end: float) -> Spoil:
    """Invert every bit between two places; a place below 1 is a share of the file."""

    def spoil(whole: bytearray) -> None:
        first, last = (round(at if at > 1 else at * len(whole)) for at in (start, end))
        whole[first:last] = bytes(byte ^ 0xFF for byte in whole[first:last])

    return spoil


def cut(at: float) -> Spoil:
    """Cut the file at a place."""

    def spoil(whole: bytearray) -> None:
        del whole[round(at if at > 1 else at * len(whole)) :]

    return spoil


DAMAGES = {
    "magic": flipped(0, 16),
    "header": flipped(16, 100),
    "schema": flipped(100, 4096),
    "middle": flipped(0.25, 0.75),
    "half": cut(0.3),
    "stump": cut(50),
}


@pytest.fixture(scope="module")
def filled_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store with 12 long events, for every damage."""
    path = tmp_path_factory.mktemp("filled") / "brain.db"
    with a_brain(path, random_source=SeededRandom(1)) as brain:
        for number in range(12):
            brain.remember(f"{number}: {LONG}", kind="event")
    return path.read_bytes()


def test_damaged_file_is_reported_and_not_written(
    tmp_path: Path, filled_file: bytes, subtests: pytest.Subtests
) -> None:
    for name, spoil in DAMAGES.items():
        with subtests.test(damage=name):
            whole = bytearray(filled_file)
            spoil(whole)
            path = tmp_path / f"{name}.db"
            path.write_bytes(whole)

            with pytest.raises(StoreCorruptError) as refusal:
                use(path)

            assert refusal.value.hint
            assert path.read_bytes() == whole


def test_file_name_with_characters_of_a_url_is_a_plain_name(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    with small_disk(tmp_path / "disk", size="4m") as disk:
        for name in ("odd name?.db", "per%20cent.db", "#.db"):
            with subtests.test(name=name):
                with a_brain(disk / name) as brain:
                    brain.remember(KETTLE, kind="fact")
                assert [one.name for one in disk.iterdir()] == [name]
                with made_read_only(disk), a_brain(disk / name) as brain:
                    assert brain.recall("kettle").items
                (disk / name).unlink()


def test_ids_stay_unique_and_ordered_when_the_clock_goes_back(path: Path) -> None:
    clock = FakeClock()
    ids: list[str] = []
    with a_brain(path, clock=clock) as brain:
        for number in range(60):
            done = brain.remember(f"Thing number {number} happened.", kind="event").items[0]
            ids.append(str(done.id))
            clock.move(timedelta(seconds=1 if number % 3 else -90))
        shown = [brain.get(id_) for id_ in ids]
        assert brain.recall("thing number 59").items[0].id == ids[59]
        old = brain.remember("The port is 80.", kind="fact").items[0].id
        clock.move(timedelta(hours=-5))
        new = brain.revise.supersede(str(old), "The port is 81.", reason="moved").id
        assert brain.recall("which port?").items[0].id == new
        assert brain.get(str(old)).state == "superseded"
        assert brain.doctor().is_sound

    assert len(set(ids)) == 60
    assert all(one.recorded_at == one.occurred_at for one in shown)


def test_store_side_files_and_new_folders_are_private(tmp_path: Path) -> None:
    mode = _mode(tmp_path)
    folder = tmp_path / "new" / "deep" / "fresh"
    before = os.umask(0)
    try:
        with a_brain(folder / "brain.db") as brain:
            brain.remember(KETTLE, kind="fact")
            modes = {one.name: _mode(one) for one in folder.iterdir()}
    finally:
        os.umask(before)

    assert [_mode(one) for one in (folder, *folder.parents[:2])] == [0o700] * 3
    assert _mode(tmp_path) == mode
    assert modes == dict.fromkeys(FILES, 0o600)


def test_doctor_reports_a_store_that_others_may_read(path: Path) -> None:
    with a_brain(path) as brain:
        path.chmod(0o644)
        (access,) = (one for one in brain.doctor().findings if one.check == "access")

    assert access.is_sound
    assert "0644" in access.detail
    assert "chmod 600" in access.hint


def test_old_program_stops_when_a_newer_one_changed_the_schema(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    calls: dict[str, Callable[[Brain], object]] = {
        "remember": lambda old: old.remember("Tea is served at four.", kind="fact"),
        "recall": lambda old: old.recall("kettle"),
        "status": lambda old: old.status(),
    }
    for name, call in calls.items():
        path = tmp_path / f"{name}.db"
        with subtests.test(call=name), a_brain(path) as old:
            assert old.remember(KETTLE, kind="fact").items[0].id
            with closing(driver().connect(str(path), isolation_level=None)) as newer:
                newer.execute("CREATE TABLE what_comes_later (x)")
                newer.execute("UPDATE alembic_version SET version_num = '9999'")
            with pytest.raises(StoreCorruptError, match="9999") as refusal:
                call(old)
            with closing(driver().connect(str(path))) as newer:
                count = newer.execute("SELECT count(*) FROM memories").fetchone()

            assert refusal.value.code == "store_newer"
            assert "Restart" in refusal.value.hint
            assert count == (1,)


def test_analyze_and_vacuum_of_another_process_disturb_no_call(path: Path) -> None:
    with a_brain(path) as brain:
        brain.remember(KETTLE, kind="fact")
        with closing(driver().connect(str(path), isolation_level=None)) as other:
            other.execute("ANALYZE")
            other.execute("VACUUM")
        assert brain.remember("Tea is served at four.", kind="fact").items[0].status == "stored"
        assert brain.recall("kettle").items


def test_error_of_a_full_disk_contains_no_text_of_the_memory(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", size="768k") as disk, a_brain(disk / "brain.db") as brain:
        with pytest.raises(CommonbrainError) as refusal:
            list(filled(brain))
        assert "at length" not in str(refusal.value)


def filled(brain: Brain) -> Iterator[str]:
    """Remember long texts until that fails; yield the id of each."""
    for number in range(1000):
        yield str(brain.remember(f"{number}: {LONG}", kind="event").items[0].id)


def use(path: Path) -> None:
    """Open a store and use all of it: damage in the middle is seen only there."""
    with a_brain(path) as brain:
        assert not brain.doctor().is_sound
        brain.remember("Tea is served at four.", kind="fact")
        brain.recall("at length")


def _carry(path: Path, folder: Path) -> None:
    """Copy a store with its side files, as a machine that died would leave it."""
    for one in path.parent.glob("brain.db*"):
        shutil.copy(one, folder)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_read_only_store_boots_without_a_session(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", size="4m") as disk:
        path = disk / "brain.db"
        with a_brain(path) as brain:
            brain.remember("Never push to main.", kind="rule", severity="BLOCKER")

        with made_read_only(disk), a_brain(path) as brain:
            briefing = brain.boot("shop", "Mend the cart.")

    assert [one.headline for one in briefing.blockers] == ["Never push to main."]
    assert briefing.session is None
    (warning,) = briefing.degraded
    assert warning.startswith("session: store_read_only")
