"""Damaged stores: a correct reply, or an error that names the newest backup; no write."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

import commonbrain
from commonbrain import NotFoundError, StoreCorruptError
from commonbrain.api.errors import EXIT_CORRUPT
from commonbrain.client import Brain
from commonbrain.storage.interface import ignore_progress
from commonbrain.storage.sqlite.backup import put_in_place
from commonbrain.testing.builders import FakeClock, SeededRandom, a_brain
from tests.faults.conftest import Command
from tests.faults.damages import (
    SCHEMA,
    Damage,
    changed,
    cut,
    damages,
    emptied,
    layout,
    wal_damages,
)

NEW = "Zebras are new in the garden."
KINDS = ("fact", "rule", "event", "task", "incident")
SIDES = ("", "-wal", "-shm")


@dataclass(frozen=True, slots=True)
class Filled:
    """A store, what is in it, and its backup."""

    path: Path
    backup: Path
    bodies: dict[str, str]

    def copy_to(self, folder: Path) -> Path:
        for one in self.path.parent.iterdir():
            shutil.copyfile(one, folder / one.name)
        return folder / self.path.name


def fill(brain: Brain) -> dict[str, str]:
    bodies: dict[str, str] = {}
    for number in range(10):
        body = f"Kettle {number} is in the cupboard of room {number * 7}."
        kind = KINDS[number % len(KINDS)]
        done = brain.remember(body, kind=kind, tags=["kitchen"], distinct_because="it is another")
        bodies[str(done.items[0].id)] = body
    return bodies


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    folder = tmp_path_factory.mktemp("filled")
    backup = folder.parent / "monday.bak"
    with a_brain(folder / "brain.db", random_source=SeededRandom(1)) as brain:
        bodies = fill(brain)
        brain.backup(backup)
    return Filled(path=folder / "brain.db", backup=backup, bodies=bodies)


@pytest.fixture(scope="module")
def killed(filled: Filled, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """The same store as a process left it that was killed: the newest changes are in the -wal."""
    folder = tmp_path_factory.mktemp("killed")
    path = filled.copy_to(tmp_path_factory.mktemp("used"))
    with a_brain(path, random_source=SeededRandom(3)) as brain:
        brain.remember("Lamps hang in the hall.", kind="fact")
        for one in path.parent.iterdir():
            shutil.copyfile(one, folder / one.name)
    return Filled(path=folder / "brain.db", backup=filled.backup, bodies=filled.bodies)


def use(brain: Brain, folder: Path, bodies: dict[str, str]) -> Iterator[Callable[[], object]]:
    """Yield each use of a store, which checks its own reply."""
    known = {*bodies.values(), "Lamps hang in the hall."}

    def recall() -> None:
        assert {one.body for one in brain.recall("kettle cupboard").items} <= known

    def get(id_: str) -> None:
        assert brain.get(id_).body == bodies[id_]

    def listed() -> None:
        assert len(brain.list(limit=20).memories) <= 20

    yield recall
    yield from (partial(get, id_) for id_ in bodies)
    yield listed
    yield brain.status
    yield lambda: brain.export(folder / "all.jsonl")
    yield lambda: brain.backup(folder / "new.bak")
    yield lambda: brain.remember(NEW, kind="fact")


def outcomes(path: Path, filled: Filled) -> Iterator[StoreCorruptError | None]:
    """Yield the error of each use; None for a correct reply."""
    try:
        brain = a_brain(path, random_source=SeededRandom(2))
    except StoreCorruptError as error:
        yield error
        return
    with brain:
        sound = True
        try:
            diagnosis = brain.doctor()
            sound = diagnosis.is_sound
            yield None
        except StoreCorruptError as error:
            sound = False
            yield error
        for call in use(brain, path.parent, filled.bodies):
            try:
                call()
                yield None
            except StoreCorruptError as error:
                yield error
            except NotFoundError:
                # A page that is damaged may not show it: `brain doctor` does.
                assert not sound
                yield None


def check(path: Path, filled: Filled) -> list[StoreCorruptError]:
    """Use a damaged store, and check every outcome and the file."""
    before = {side: content(path, side) for side in SIDES}
    errors: list[StoreCorruptError] = []
    last = None
    for last in outcomes(path, filled):
        if last is not None:
            errors.append(last)
    for error in errors:
        if error.code == "store_corrupt":
            assert str(filled.backup) in error.hint
            assert "brain restore" in error.hint
    if errors:
        assert last is not None, "something was written to a store that was known to be damaged"
        assert not any(NEW.encode() in content(path, side) for side in SIDES)
        if not before["-wal"]:
            assert content(path, "") == before[""]
            assert not content(path, "-wal")
    return errors


def content(path: Path, side: str) -> bytes:
    file = path.with_name(path.name + side)
    return file.read_bytes() if file.exists() else b""


def check_each(
    filled: Filled, damaged: Iterable[tuple[str, Damage]], folder: Path
) -> dict[str, list[StoreCorruptError]]:
    errors: dict[str, list[StoreCorruptError]] = {}
    for name, damage in damaged:
        place = folder / str(len(errors))
        place.mkdir()
        path = filled.copy_to(place)
        damage(path)
        try:
            errors[name] = check(path, filled)
        except BaseException as error:
            error.add_note(f"The damage is: {name}.")
            raise
        shutil.rmtree(place)
    return errors


@pytest.mark.of_a_file
@pytest.mark.parametrize(
    ("part", "noticed"),
    [("header", 8), ("tables", 14), ("indexes", 2), ("cuts", 15), ("schema", 12), ("values", 15)],
)
def test_damaged_store_replies_correctly_or_names_its_newest_backup(
    filled: Filled, tmp_path: Path, part: str, noticed: int
) -> None:
    errors = check_each(filled, damages(layout(filled.path))[part].items(), tmp_path)

    assert sum(bool(one) for one in errors.values()) >= noticed


def test_damaged_wal_loses_its_end_or_is_reported(killed: Filled, tmp_path: Path) -> None:
    errors = check_each(killed, wal_damages(), tmp_path)

    (error,) = errors["empty with a wal"]
    assert "SQLite's files" in error.message


def test_deleted_backup_is_not_named(filled: Filled, tmp_path: Path) -> None:
    path = filled.copy_to(tmp_path)
    with a_brain(path) as brain:
        brain.backup(tmp_path / "older.bak")
        brain.backup(tmp_path / "newer.bak")
    (tmp_path / "newer.bak").unlink()
    emptied(path)

    with pytest.raises(StoreCorruptError) as refusal:
        a_brain(path)

    assert f"The newest backup is {tmp_path / 'older.bak'};" in refusal.value.hint


def test_error_of_a_store_without_a_backup_says_so(path: Path) -> None:
    with a_brain(path) as brain:
        fill(brain)
    cut(20_000)(path)

    with pytest.raises(StoreCorruptError) as refusal, a_brain(path) as brain:
        brain.recall("kettle")

    assert "No backup of it is known" in refusal.value.hint


def test_backup_of_damaged_memories_is_not_named(filled: Filled, tmp_path: Path) -> None:
    path = filled.copy_to(tmp_path)
    changed("UPDATE rules SET skill = '{bad'")(path)
    with a_brain(path) as brain:
        with pytest.raises(StoreCorruptError):
            brain.recall("kettle cupboard")
        brain.backup(tmp_path / "bad.bak")
        with pytest.raises(StoreCorruptError) as refusal:
            brain.recall("kettle cupboard")

    assert str(filled.backup) in refusal.value.hint


def test_empty_file_is_a_new_store_unless_it_has_a_wal_an_index_or_backups(
    tmp_path: Path, filled: Filled, subtests: pytest.Subtests
) -> None:
    path = tmp_path / "brain.db"
    content = (filled.path.parent / "brain.db.backups").read_bytes()
    for trace in ("brain.db-wal", "brain.db-shm", "brain.db.backups"):
        with subtests.test(file=trace):
            (tmp_path / trace).write_bytes(content)
            emptied(path)
            with pytest.raises(StoreCorruptError, match="once was not") as refusal:
                a_brain(path)
            assert path.read_bytes() == b""
            assert (tmp_path / trace).read_bytes() == content
            assert "To begin with an empty store" in refusal.value.hint
            (tmp_path / trace).unlink()

    with a_brain(path) as brain:
        assert brain.remember(NEW, kind="fact").items[0].status == "stored"


def test_emptied_store_is_restored_from_the_named_backup(filled: Filled, tmp_path: Path) -> None:
    path = filled.copy_to(tmp_path)
    emptied(path)

    put_in_place(filled.backup, path, digest=None, clock=FakeClock(), on_progress=ignore_progress)

    with a_brain(path) as brain:
        assert {brain.get(id_).body for id_ in filled.bodies} == {*filled.bodies.values()}


@pytest.mark.parametrize("part", ["header", "schema"])
def test_damaged_store_is_saved_when_its_backup_replaces_it(
    filled: Filled, tmp_path: Path, part: str
) -> None:
    for number, damage in enumerate([*damages(layout(filled.path))[part].values()][::2]):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = filled.copy_to(folder)
        damage(path)
        whole = path.read_bytes()

        done = put_in_place(
            filled.backup, path, digest=None, clock=FakeClock(), on_progress=ignore_progress
        )

        assert done.kept is not None
        assert len(Path(done.kept).read_bytes()) == len(whole)
        assert done.memories == len(filled.bodies)


COMMANDS = {
    "recall": changed(f"UPDATE sqlite_schema SET {SCHEMA[0]}"),  # noqa: S608 a constant
    "doctor": changed(f"UPDATE sqlite_schema SET {SCHEMA[2]}"),  # noqa: S608 a constant
    "status": emptied,
}


def test_command_reports_damage_and_changes_nothing(
    command: Command, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    backup, sound = tmp_path / "monday.bak", tmp_path / "sound"
    sound.mkdir()
    with commonbrain.open(sound / "brain.db") as brain:
        brain.backup(backup)
    for name, damage in COMMANDS.items():
        with subtests.test(command=name):
            path = shutil.copytree(sound, tmp_path / name) / "brain.db"
            damage(path)
            before = path.read_bytes()

            code, _, err = command(path, name, *(["kettle"] if name == "recall" else []))

            assert code == EXIT_CORRUPT
            assert "store_corrupt: The store" in err
            assert "Traceback" not in err
            assert str(backup) in err.replace("\n", "")
            assert path.read_bytes() == before
