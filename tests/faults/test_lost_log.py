"""A log that lost acknowledged changes is reported; one that lost none never is."""

import logging
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from commonbrain.client import Brain
from commonbrain.clock import Clock
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.storage.interface import Finding, ignore_progress
from commonbrain.storage.sqlite.acknowledged import COUNT
from commonbrain.storage.sqlite.backup import put_in_place
from commonbrain.storage.sqlite.driver import driver
from commonbrain.storage.sqlite.engine import open_sqlite
from commonbrain.storage.store import Store
from commonbrain.testing.builders import FakeClock, SeededRandom, a_brain, use_store_opener
from tests.faults.damages import PAGE, Damage, cut, of_wal
from tests.faults.workers import DONE, worker, write
from tests.laid_out_stores import lay_out_store

pytestmark = pytest.mark.of_a_file
STORED = 8
LOST = "missing: the -wal file was damaged, cut or deleted"


def remember(brain: Brain, count: int = STORED) -> None:
    for number in range(count):
        brain.remember(f"Kettle {number} is in room {number * 7}.", kind="event")


def kill(path: Path, use: Callable[[Brain], object]) -> None:
    """Use a store, and leave its files as if the process had been killed then."""
    a_brain(path).close()
    brain = a_brain(path, random_source=SeededRandom(1))
    use(brain)
    left = {file: (file.read_bytes(), file.stat()) for file in path.parent.glob("brain.db*")}
    brain.close()
    for file, (content, status) in left.items():
        if not file.name.endswith("-shm"):
            # The file itself and not a copy of it.
            file.write_bytes(content)
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def opened(path: Path, caplog: pytest.LogCaptureFixture) -> tuple[str, Finding, int]:
    """Open a store; return what the log says of it, the finding, and the memories."""
    caplog.clear()
    with caplog.at_level(logging.WARNING), a_brain(path) as brain:
        findings = {one.check: one for one in brain.doctor().findings}
        memories = brain.status().memories
    return caplog.text, findings["log"], memories


def noise_at(share: float) -> Damage:
    def damage(path: Path) -> None:
        whole = bytearray(path.read_bytes())
        at = round((len(whole) - PAGE) * share)
        whole[at : at + PAGE] = bytes(byte ^ 0x5A for byte in whole[at : at + PAGE])
        path.write_bytes(whole)

    return damage


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


DAMAGES: dict[str, Damage] = {
    "noise in the header": noise_at(0),
    "noise in the middle": noise_at(0.5),
    "noise at the end": noise_at(1),
    "cut": cut(200_000),
    "cut to nothing": cut(0),
    "zeroed": zeroed,
    "deleted": Path.unlink,
}


def test_lost_log_is_reported_once_and_by_doctor_until_a_backup_replaces_the_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    for name, damage in DAMAGES.items():
        with subtests.test(damage=name):
            path, backup = tmp_path / name / "brain.db", tmp_path / f"{name}.bak"
            with a_brain(path) as brain:
                brain.backup(backup)
            kill(path, remember)
            of_wal(damage)(path)

            logged, finding, memories = opened(path, caplog)
            again, still, _ = opened(path, caplog)

            assert memories < STORED
            assert LOST in logged
            assert str(backup) in logged
            assert "brain restore" in logged
            assert not finding.is_sound
            assert finding == still
            assert again == ""
            put_in_place(backup, path, digest=None, clock=FakeClock(), on_progress=ignore_progress)
            assert opened(path, caplog)[1].is_sound


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("killed") / "brain.db"
    kill(path, remember)
    return path


@example(share=0.0)
@example(share=1.0)
@given(share=st.floats(0, 1))
def test_number_of_lost_changes_is_true_wherever_the_log_is_cut(killed: Path, share: float) -> None:
    left = {file: (file.read_bytes(), file.stat()) for file in killed.parent.glob("brain.db*")}
    acknowledged = int(killed.with_name("brain.db.acknowledged").read_text().split()[0])
    try:
        log = killed.with_name("brain.db-wal")
        os.truncate(log, round(log.stat().st_size * share))
        with a_brain(killed) as brain:
            (finding,) = (one for one in brain.doctor().findings if one.check == "log")
        with closing(driver().connect(str(killed))) as raw:
            lost = acknowledged - raw.execute(COUNT).fetchone()[0]
    finally:
        for file in killed.parent.glob("brain.db*"):
            if file != killed:
                file.unlink()
        for file, (content, status) in left.items():
            file.write_bytes(content)
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert finding.is_sound == (not lost)
    which = "acknowledged change is" if lost == 1 else f"{lost} acknowledged changes are"
    assert not lost or f"the last {which}" in finding.detail


def sqlite(path: Path, statement: str) -> None:
    with closing(driver().connect(str(path), isolation_level=None)) as other:
        other.execute(statement).fetchall()


def replace_in_place(path: Path) -> None:
    """Copy an older store over a killed one, and delete its log."""
    old = path.with_name("old")
    with a_brain(old) as brain:
        remember(brain, 1)
    shutil.copyfile(old, path)
    path.with_name("brain.db-wal").unlink()


def copy_without_log(path: Path) -> None:
    """Copy a killed store, with its times and without its log, and rename it to its place."""
    partial = path.with_name("copy")
    shutil.copy2(path, partial)
    path.with_name("brain.db-wal").unlink()
    partial.replace(path)


AFTERWARDS: dict[str, Damage] = {
    "nothing": lambda _: None,
    "checkpoint by another program": lambda path: sqlite(path, "PRAGMA wal_checkpoint(TRUNCATE)"),
    "another journal": lambda path: sqlite(path, "PRAGMA journal_mode = DELETE"),
    "vacuum": lambda path: sqlite(path, "VACUUM"),
    "an older store in its place": replace_in_place,
    "a copy in its place": copy_without_log,
}


def test_log_that_lost_nothing_is_not_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    for name, change in AFTERWARDS.items():
        with subtests.test(afterwards=name):
            path = tmp_path / name / "brain.db"
            kill(path, remember)
            change(path)
            logged, finding, _ = opened(path, caplog)

            assert LOST not in logged
            assert finding.is_sound


def test_change_that_was_cut_off_while_it_was_written_is_not_reported(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log, record = path.with_name("brain.db-wal"), path.with_name("brain.db.acknowledged")
    before: list[bytes] = []

    def use(brain: Brain) -> None:
        remember(brain)
        before.extend([log.read_bytes(), record.read_bytes()])
        brain.remember("The kettle is gone.", kind="event")

    kill(path, use)
    os.truncate(log, (len(before[0]) + log.stat().st_size) // 2)
    record.write_bytes(before[1])
    logged, finding, memories = opened(path, caplog)

    assert memories == STORED
    assert LOST not in logged
    assert finding.is_sound


def test_store_that_others_write_is_opened_without_a_report(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a_brain(path).close()
    with ExitStack() as stack:
        writers = [
            stack.enter_context(worker(write, path, number=number, times=12)) for number in (1, 2)
        ]
        for one in writers:
            one.hear()
            one.line.send("go")
        for _ in range(10):
            logged, finding, _ = opened(path, caplog)
            assert LOST not in logged
            assert finding.is_sound
        assert [one.hear_out()[-1] for one in writers] == [DONE, DONE]


def test_store_with_an_unreadable_count_opens(
    path: Path, caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    kill(path, remember)
    for content in (b"", b"5", b"x" * 200, b"[" * 10_000, b"\0" * 128, b"9" * 5_000):
        with subtests.test(content=content[:9]):
            path.with_name("brain.db.acknowledged").write_bytes(content)
            logged, finding, memories = opened(path, caplog)

            assert (logged, memories) == ("", STORED)
            assert finding.is_sound


def test_normal_durability_writes_no_count(path: Path) -> None:
    def open_normal(path: Path, *, space: EmbeddingSpace, clock: Clock) -> Store:
        lay_out_store(path)
        return open_sqlite(
            path, space=space, clock=clock, is_durable=False, lock_timeout_s=LOCK_TIMEOUT_S
        )

    with use_store_opener(open_normal), a_brain(path) as brain:
        remember(brain, 1)
        assert not path.with_name("brain.db.acknowledged").exists()
