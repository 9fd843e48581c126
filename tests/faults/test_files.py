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


def test_a_full_disk_refuses_the_write_and_keeps_all_that_was_acknowledged(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", size="2m") as disk:
        path = disk / "brain.db"
        kept: list[str] = []
        with a_brain(path, random_source=SeededRandom(1)) as brain:
            with pytest.raises(UnavailableError, match="full") as refusal:
                kept.extend(filled(brain))
            assert brain.recall("at length").items
        with a_brain(path) as brain:
            assert len(kept) > 5
            assert [brain.get(id_).state for id_ in kept] == ["active"] * len(kept)
            assert brain.status().memories == len(kept)
            assert brain.doctor().is_sound
    assert refusal.value.code == "store_full"


def test_a_store_that_finds_no_room_at_all_is_not_left_half_made(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", size="64k") as disk:
        for _ in range(2):
            with pytest.raises(UnavailableError, match="full"):
                a_brain(disk / "brain.db")
        assert (disk / "brain.db").stat().st_size <= 4096


@pytest.mark.parametrize("was_killed", [False, True])
def test_a_read_only_store_is_recalled_from_and_says_what_it_cannot_do(
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
            found = brain.recall("Where is the kettle?")
            assert brain.get(str(id_)).body == KETTLE
            with pytest.raises(UnavailableError, match="read-only") as refusal:
                brain.remember("Nor can this be kept.", kind="fact")
            with caplog.at_level(logging.WARNING):
                brain.services.journal.flush()
            assert brain.status().traces_dropped == 1
            diagnosis = brain.doctor()
            assert brain.backup(tmp_path / "brain.bak").memories == 1

    assert [item.id for item in found.items] == [id_]
    assert refusal.value.code == "store_read_only"
    assert "1 recall traces, 2 accesses, 0 heartbeats, 0 tool events and" in caplog.text
    assert "read-only" in caplog.text
    assert "Traceback" not in caplog.text
    assert diagnosis.is_sound, diagnosis.findings
    assert "read-only" in next(f.detail for f in diagnosis.findings if f.check == "access")
    with a_brain(tmp_path / "brain.bak") as brain:
        assert brain.recall("Where is the kettle?").items


def test_a_store_cannot_be_made_where_nothing_can_be_written(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", size="1m") as disk:
        (disk / "empty.db").touch()
        with made_read_only(disk):
            for name in ("brain.db", "deep/brain.db", "empty.db"):
                with pytest.raises(UnavailableError) as refusal:
                    a_brain(disk / name)
                assert refusal.value.hint


def test_a_read_only_store_that_somebody_else_writes_is_not_read_on(tmp_path: Path) -> None:
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
    """Turn every bit between two places around; a place below 1 is a share of the file."""

    def spoil(whole: bytearray) -> None:
        first, last = (round(at if at > 1 else at * len(whole)) for at in (start, end))
        whole[first:last] = bytes(byte ^ 0xFF for byte in whole[first:last])

    return spoil


def cut(at: float) -> Spoil:
    """Lose all from a place on."""

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
    """A store with 30 long events, for every damage."""
    path = tmp_path_factory.mktemp("filled") / "brain.db"
    with a_brain(path, random_source=SeededRandom(1)) as brain:
        for number in range(30):
            brain.remember(f"{number}: {LONG}", kind="event")
    return path.read_bytes()


@pytest.mark.parametrize("spoil", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_file_is_told_of_and_not_written_to(
    path: Path, filled_file: bytes, spoil: Spoil
) -> None:
    whole = bytearray(filled_file)
    spoil(whole)
    path.write_bytes(whole)

    with pytest.raises(StoreCorruptError) as refusal:
        use(path)

    assert refusal.value.hint
    assert path.read_bytes() == whole


@pytest.mark.parametrize("name", ["odd name?.db", "per%20cent.db", "#.db"])
def test_a_name_that_means_something_in_an_address_is_only_a_name(
    tmp_path: Path, name: str
) -> None:
    with small_disk(tmp_path / "disk", size="4m") as disk:
        with a_brain(disk / name) as brain:
            brain.remember(KETTLE, kind="fact")
        assert [one.name for one in disk.iterdir()] == [name]
        with made_read_only(disk), a_brain(disk / name) as brain:
            assert brain.recall("kettle").items


def test_ids_stay_unique_and_order_sane_when_the_clock_goes_back(path: Path) -> None:
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


def test_the_store_its_side_files_and_new_folders_are_for_their_owner_alone(tmp_path: Path) -> None:
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
    assert modes == dict.fromkeys(["brain.db", "brain.db-wal", "brain.db-shm"], 0o600)


def test_doctor_tells_when_others_may_read_the_store(path: Path) -> None:
    with a_brain(path) as brain:
        path.chmod(0o644)
        (access,) = (one for one in brain.doctor().findings if one.check == "access")

    assert access.is_sound
    assert "0644" in access.detail
    assert "chmod 600" in access.hint


@pytest.mark.parametrize("asks", ["remember", "recall", "status"])
def test_an_old_program_stops_when_a_newer_one_changed_the_schema(path: Path, asks: str) -> None:
    with a_brain(path) as old:
        id_ = old.remember(KETTLE, kind="fact").items[0].id
        with closing(driver().connect(str(path), isolation_level=None)) as newer:
            newer.execute("CREATE TABLE what_comes_later (x)")
            newer.execute("UPDATE alembic_version SET version_num = '9999'")
        calls: dict[str, Callable[[], object]] = {
            "remember": lambda: old.remember("Tea is served at four.", kind="fact"),
            "recall": lambda: old.recall("kettle"),
            "status": old.status,
        }
        with pytest.raises(StoreCorruptError, match="9999") as refusal:
            calls[asks]()
        with closing(driver().connect(str(path))) as newer:
            count = newer.execute("SELECT count(*) FROM memories").fetchone()

    assert id_
    assert refusal.value.code == "store_newer"
    assert "Restart" in refusal.value.hint
    assert count == (1,)


def test_a_change_of_the_schema_that_is_no_new_version_disturbs_nobody(path: Path) -> None:
    with a_brain(path) as brain:
        brain.remember(KETTLE, kind="fact")
        with closing(driver().connect(str(path), isolation_level=None)) as other:
            other.execute("ANALYZE")
            other.execute("VACUUM")
        assert brain.remember("Tea is served at four.", kind="fact").items[0].status == "stored"
        assert brain.recall("kettle").items


def test_no_error_of_the_file_tells_what_was_being_stored(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", size="768k") as disk, a_brain(disk / "brain.db") as brain:
        with pytest.raises(CommonbrainError) as refusal:
            list(filled(brain))
        assert "at length" not in str(refusal.value)


def filled(brain: Brain) -> Iterator[str]:
    """Remember long things until something gives way; tell the id of each."""
    for number in range(1000):
        yield str(brain.remember(f"{number}: {LONG}", kind="event").items[0].id)


def use(path: Path) -> None:
    """Open a store and look everywhere: damage in the middle is seen only by who goes there."""
    with a_brain(path) as brain:
        assert not brain.doctor().is_sound
        brain.remember("Tea is served at four.", kind="fact")
        brain.recall("at length")


def _carry(path: Path, folder: Path) -> None:
    """Copy a store with whatever lies beside it, as a machine that died would leave it."""
    for one in path.parent.glob("brain.db*"):
        shutil.copy(one, folder)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_read_only_store_boots_and_says_that_there_is_no_session(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", size="4m") as disk:
        path = disk / "brain.db"
        with a_brain(path) as brain:
            brain.remember("Never push to main.", kind="rule", severity="BLOCKER")

        with made_read_only(disk), a_brain(path) as brain:
            briefing = brain.boot("shop", "Mend the cart.")

    assert [one.headline for one in briefing.blockers] == ["Never push to main."]
    assert briefing.session is None
    (told,) = briefing.degraded
    assert told.startswith("session: store_read_only")
