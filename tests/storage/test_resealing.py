"""Sealing, unsealing and a new key: the whole store before or after, whatever happens."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import keyring
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as NoKeyring

from commonbrain import InvalidInputError, UnavailableError
from commonbrain.storage.interface import RestoreResult, ignore_progress
from commonbrain.storage.sqlite import resealing
from commonbrain.storage.sqlite.backup import plan_restore, put_in_place
from commonbrain.storage.sqlite.resealing import Sealing, SealPlan, plan_sealing
from commonbrain.storage.sqlite.sealing import ASK, Key, KeySource, make_key, note_source
from commonbrain.testing.builders import FakeClock, a_brain, use_store_opener
from tests.faults.test_processes import start_together
from tests.faults.workers import worker, write
from tests.storage.test_sealed_stores import WORDS, opened

pytest.importorskip("sqlcipher3")

PASSPHRASE = "five random words are enough"  # noqa: S105 it is an example


@pytest.fixture(autouse=True)
def _files_made_by_sqlite() -> Iterator[None]:
    with use_store_opener(opened):
        yield


@pytest.fixture
def by_file(tmp_path: Path) -> Sealing:
    return Sealing(source=KeySource("file", str(tmp_path / "key")))


def filled(path: Path) -> Path:
    with a_brain(path) as brain:
        brain.remember(WORDS, kind="fact")
    return path


def reseal(path: Path, sealing: Sealing | None) -> SealPlan:
    return resealing.reseal(path, sealing, on_progress=ignore_progress)


def restored(file: Path, store: Path) -> RestoreResult:
    return put_in_place(file, store, digest=None, clock=FakeClock(), on_progress=ignore_progress)


def is_readable(path: Path) -> bool:
    return b"heron" in path.read_bytes()


def assert_whole(path: Path) -> None:
    with a_brain(path) as brain:
        assert brain.recall("Where does the heron nest?").items[0].body == WORDS
        assert brain.doctor().is_sound


def test_store_is_sealed_gets_another_key_and_is_unsealed(path: Path, by_file: Sealing) -> None:
    filled(path)
    assert is_readable(path)
    assert by_file.source

    reseal(path, by_file)
    first = by_file.source.read()
    assert not is_readable(path)
    assert_whole(path)

    reseal(path, replace(by_file, is_rotation=True))
    assert by_file.source.read()[1:] == first
    assert not is_readable(path)
    assert_whole(path)
    by_file.source.write(by_file.source.read()[:1])
    assert_whole(path)

    reseal(path, None)
    assert is_readable(path)
    assert_whole(path)


def test_key_moves_to_another_file_with_the_former_one(
    path: Path, by_file: Sealing, tmp_path: Path
) -> None:
    reseal(filled(path), by_file)
    backup = path.with_name("old.bak")
    with a_brain(path) as brain:
        brain.backup(backup)
    other = KeySource("file", str(tmp_path / "other"))

    reseal(path, Sealing(source=other, is_rotation=True))

    assert by_file.source
    Path(by_file.source.name).unlink()
    assert_whole(path)
    restored(backup, path)
    assert_whole(path)
    assert not is_readable(path)


def test_passphrase_opens_a_store_where_someone_can_be_asked(path: Path) -> None:
    reseal(filled(path), Sealing(passphrase=PASSPHRASE))

    with pytest.raises(UnavailableError) as without_terminal:
        a_brain(path)
    token = ASK.set(lambda _: "another one, and too long")
    try:
        with pytest.raises(UnavailableError) as wrong:
            a_brain(path)
        ASK.set(lambda _: PASSPHRASE)
        assert_whole(path)
        backup = path.with_name("brain.bak")
        with a_brain(path) as brain:
            brain.backup(backup)
        restored(backup, path)
        assert_whole(path)
        assert not is_readable(path)
        assert not is_readable(backup)
    finally:
        ASK.reset(token)

    assert (without_terminal.value.code, wrong.value.code) == ("key_missing", "key_wrong")


def test_sealing_refuses_a_store_that_another_process_has_open(
    path: Path, by_file: Sealing
) -> None:
    filled(path)
    with worker(write, path, number=1, times=100_000) as other:
        start_together([other])
        other.hear()
        with pytest.raises(UnavailableError) as refusal:
            reseal(path, by_file)
        assert refusal.value.code == "store_in_use"
        assert other.hear()
    assert is_readable(path)
    assert [one.name for one in path.parent.glob(".*")] == []


class Crash(BaseException):
    """The end of the process."""


@settings(max_examples=12, deadline=None)
@given(
    steps=st.lists(st.sampled_from(["seal", "rotate", "unseal"]), max_size=4), stop=st.floats(0, 1)
)
def test_interrupted_change_leaves_a_store_that_opens(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], stop: float
) -> None:
    folder = tmp_path_factory.mktemp("crash")
    path, source = filled(folder / "brain.db"), KeySource("file", str(folder / "key"))
    changes: dict[str, Sealing | None] = {
        "seal": Sealing(source=source),
        "rotate": Sealing(source=source, is_rotation=True),
        "unseal": None,
    }

    def crash(progress: float) -> None:
        if progress >= stop:
            raise Crash

    for step in steps:
        with suppress(Crash, InvalidInputError):
            resealing.reseal(path, changes[step], on_progress=crash)
        assert_whole(path)
        with suppress(InvalidInputError):
            reseal(path, changes[step])
        assert_whole(path)


def test_no_key_is_lost_where_two_change_a_key_file_at_once(by_file: Sealing) -> None:
    source = by_file.source
    assert source
    made: list[Key] = []

    def with_one_more(keys: list[Key]) -> list[Key]:
        made.append(make_key(source))
        return [made[-1], *keys]

    with ThreadPoolExecutor(1) as other:

        def while_another_does(keys: list[Key]) -> list[Key]:
            change = other.submit(source.update, with_one_more)
            # It ends at once if nothing excludes it.
            with suppress(TimeoutError):
                change.result(timeout=0.5)
            return [make_key(source), *keys]

        source.update(while_another_does)

    # Each of the two changes made its key twice: once to see whether there is something to change.
    assert len(source.read()) == 3
    assert set(made[1::2]) <= set(source.read())


@pytest.mark.parametrize("is_rotation", [False, True])
def test_new_key_that_something_else_removed_replaces_no_store(
    path: Path, by_file: Sealing, *, is_rotation: bool
) -> None:
    filled(path)
    if is_rotation:
        reseal(path, by_file)
    source = by_file.source
    assert source
    former = source.read()

    with pytest.raises(UnavailableError) as error:
        resealing.reseal(
            path,
            replace(by_file, is_rotation=is_rotation),
            on_progress=lambda _: source.write([*former, make_key(source)]),
        )

    assert error.value.code == "key_missing"
    assert is_readable(path) is not is_rotation
    assert_whole(path)


def test_rotation_makes_a_key_however_its_file_is_named(path: Path, by_file: Sealing) -> None:
    reseal(filled(path), by_file)
    assert by_file.source
    key_file, (first,) = Path(by_file.source.name), by_file.source.read()
    link = key_file.with_name("link")
    link.symlink_to(key_file)
    aliases = [link, key_file.parent / "sub" / ".." / key_file.name]
    aliases[1].parent.parent.mkdir()

    for count, alias in enumerate(aliases, start=2):
        reseal(path, Sealing(source=KeySource("file", str(alias)), is_rotation=True))
        assert [key.digits for key in by_file.source.read()][-1] == first.digits
        assert len(by_file.source.read()) == count
        assert link.is_symlink()
        assert_whole(path)


def test_store_is_resealed_and_restored_where_a_link_leads(path: Path, by_file: Sealing) -> None:
    backup, link = path.with_name("brain.bak"), path.with_name("folder") / "link.db"
    link.parent.mkdir()
    link.symlink_to(filled(path))
    with a_brain(link) as brain:
        brain.backup(backup)

    for sealing in (by_file, replace(by_file, is_rotation=True), None, by_file):
        reseal(link, sealing)
        assert is_readable(path) is (sealing is None)
        assert_whole(path)
        assert_whole(link)
    restored(backup, link)

    assert link.is_symlink()
    assert [one.name for one in link.parent.iterdir()] == ["link.db"]
    assert not is_readable(path)
    assert_whole(link)


def test_store_with_two_names_is_not_resealed(path: Path, by_file: Sealing) -> None:
    filled(path)
    other = path.with_name("other.db")
    other.hardlink_to(path)

    with pytest.raises(InvalidInputError, match="2 names"):
        reseal(path, by_file)

    assert path.samefile(other)
    assert_whole(path)


def test_plain_copies_are_named(path: Path, by_file: Sealing) -> None:
    backup = path.with_name("brain.bak")
    with a_brain(filled(path)) as brain:
        brain.backup(backup)
    replaced = restored(backup, path).kept

    plan = plan_sealing(path, by_file)

    assert {str(backup), replaced} == set(plan.plain_copies)


@pytest.mark.parametrize("is_sealed", [True, False])
def test_backup_is_restored_into_a_sealed_store(
    path: Path, by_file: Sealing, *, is_sealed: bool
) -> None:
    backup = path.with_name("brain.bak")
    filled(path)
    for is_after in (False, True):
        if is_after:
            reseal(path, by_file)
        if is_after == is_sealed:
            with a_brain(path) as brain:
                brain.backup(backup)
    assert is_readable(backup) is not is_sealed

    plan = plan_restore(backup, path)
    done = restored(backup, path)

    assert plan.comes.memories == 1
    assert done.kept
    assert not is_readable(Path(done.kept))
    assert not is_readable(path)
    assert_whole(path)


def test_store_whose_key_is_lost_is_replaced_by_a_plain_backup(
    path: Path, by_file: Sealing
) -> None:
    plain = path.with_name("plain.bak")
    with a_brain(filled(path)) as brain:
        brain.backup(plain)
    reseal(path, by_file)
    assert by_file.source
    by_file.source.write([make_key(by_file.source)])

    plan = plan_restore(plain, path)
    restored(plain, path)

    assert plan.trouble
    assert plan.goes is None
    assert_whole(path)


def test_restore_unseals_no_store_without_saying_so(path: Path, by_file: Sealing) -> None:
    plain = path.with_name("plain.bak")
    with a_brain(filled(path)) as brain:
        brain.backup(plain)
    assert not plan_restore(plain, path).unseals
    reseal(path, by_file)
    assert by_file.source
    Path(by_file.source.name).unlink()

    for change in (plan_restore, restored):
        with pytest.raises(UnavailableError) as error:
            change(plain, path)
        assert error.value.code == "key_missing"
        assert not is_readable(path)

    note_source(path, None)
    assert plan_restore(plain, path).unseals
    restored(plain, path)
    assert is_readable(path)
    assert_whole(path)


def test_backup_is_restored_with_the_passphrase_of_the_store(path: Path) -> None:
    plain = path.with_name("plain.bak")
    with a_brain(filled(path)) as brain:
        brain.backup(plain)
    reseal(path, Sealing(passphrase=PASSPHRASE))
    token = ASK.set(lambda _: PASSPHRASE)
    try:
        assert not plan_restore(plain, path).unseals
        restored(plain, path)
        assert not is_readable(path)
        assert_whole(path)
    finally:
        ASK.reset(token)


def test_store_is_not_unsealed_where_the_settings_say_that_it_is_sealed(
    path: Path, by_file: Sealing
) -> None:
    reseal(filled(path), by_file)
    assert by_file.source

    with pytest.raises(InvalidInputError, match="COMMONBRAIN_KEY_FILE"):
        plan_sealing(path, None, key_file=Path(by_file.source.name))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("rotate", "is not sealed"),
        ("unseal", "is not sealed"),
        ("short passphrase", "at least 15 characters"),
    ],
)
def test_change_that_makes_no_sense_changes_nothing(
    path: Path, by_file: Sealing, change: str, message: str
) -> None:
    changes: dict[str, Sealing | None] = {
        "rotate": replace(by_file, is_rotation=True),
        "unseal": None,
        "short passphrase": Sealing(passphrase=PASSPHRASE[:14]),
    }
    filled(path)

    with pytest.raises(InvalidInputError, match=message):
        reseal(path, changes[change])

    assert_whole(path)
    assert by_file.source
    assert not by_file.source.read()


def test_keys_of_the_settings_and_of_the_command_must_agree(
    path: Path, by_file: Sealing, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match="COMMONBRAIN_KEY_FILE"):
        plan_sealing(filled(path), by_file, key_file=tmp_path / "other")


def test_note_of_a_store_that_is_plain_again_after_a_crash_does_not_matter(
    path: Path, tmp_path: Path
) -> None:
    filled(path)
    note_source(path, KeySource("file", str(tmp_path / "nothing")))

    assert_whole(path)


class MemoryKeyring(KeyringBackend):
    """A keyring as a system has one, in this process."""

    priority = 1  # pyright: ignore[reportAssignmentType] as the library documents it

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password


def test_key_in_the_keyring_opens_a_store_while_the_keyring_does(path: Path) -> None:
    before = keyring.get_keyring()
    in_keyring = Sealing(source=KeySource("keyring", str(path)))
    try:
        keyring.set_keyring(MemoryKeyring())
        reseal(filled(path), in_keyring)
        reseal(path, replace(in_keyring, is_rotation=True))
        assert not is_readable(path)
        assert_whole(path)

        keyring.set_keyring(NoKeyring())
        with pytest.raises(UnavailableError) as error:
            a_brain(path)
    finally:
        keyring.set_keyring(before)

    assert error.value.code == "key_missing"


def test_copy_that_a_killed_process_left_is_removed_by_the_next_change(
    tmp_path: Path, by_file: Sealing
) -> None:
    store = filled(tmp_path / "a.db")
    others = filled(tmp_path / "b.db").rename(tmp_path / ".b.db.0123abcd.partial")
    left = filled(tmp_path / "c.db").rename(tmp_path / ".a.db.0123abcd.partial")

    reseal(store, by_file)

    assert not left.exists()
    assert others.exists()
