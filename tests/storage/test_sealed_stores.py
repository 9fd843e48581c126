"""A sealed store works like any other for whoever has its key, and is noise to others."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from commonbrain import InvalidInputError, UnavailableError
from commonbrain.clock import Clock
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.storage.sqlite.engine import open_sqlite
from commonbrain.storage.sqlite.sealing import KeySource, derive_key, make_key, note_source
from commonbrain.storage.store import Store
from commonbrain.testing.builders import FakeClock, a_brain, use_store_opener
from tests.storage.index_contract import IndexContract
from tests.storage.store_contract import StoreContract
from tests.storage.store_steps import SPACE, OpenStore

pytest.importorskip("sqlcipher3")

WORDS = "The heron nests behind the boathouse."


@pytest.fixture
def source(tmp_path: Path) -> KeySource:
    source = KeySource("file", str(tmp_path / "key"))
    source.write([make_key(source)])
    return source


def opened(
    path: Path,
    *,
    key_file: Path | None = None,
    space: EmbeddingSpace = SPACE,
    clock: Clock | None = None,
) -> Store:
    return open_sqlite(
        path,
        space=space,
        clock=clock or FakeClock(),
        is_durable=True,
        lock_timeout_s=LOCK_TIMEOUT_S,
        key_file=key_file,
    )


@pytest.fixture(autouse=True)
def _files_made_by_sqlite() -> Iterator[None]:
    """Brains make their files: a copy of an empty store is not sealed."""
    with use_store_opener(opened):
        yield


@pytest.fixture
def open_store(path: Path, source: KeySource) -> Iterator[OpenStore]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(opened(path, key_file=Path(source.name))))


class TestSealed(StoreContract):
    pass


class TestSealedIndex(IndexContract):
    pass


def sealed(path: Path, source: KeySource) -> Path:
    """Make a sealed store with one memory."""
    note_source(path, source)
    with a_brain(path) as brain:
        brain.remember(WORDS, kind="fact")
    return path


@pytest.mark.requirement("ST-20")
def test_sealed_store_and_its_log_have_no_readable_byte(path: Path, source: KeySource) -> None:
    note_source(path, source)
    with a_brain(path) as brain:
        brain.remember(WORDS, kind="fact")
        files = list(path.parent.glob("brain.db*"))
        assert path.with_name("brain.db-wal") in files
        assert not [one for one in files if b"heron" in one.read_bytes()]
    with a_brain(path) as brain:
        assert brain.recall("Where does the heron nest?").items[0].body == WORDS


@pytest.mark.requirement("ST-20")
@pytest.mark.parametrize("where", ["note", "setting"])
def test_store_without_a_key_that_fits_is_left_as_it_is(
    path: Path, source: KeySource, tmp_path: Path, where: str
) -> None:
    sealed(path, source)
    before = path.read_bytes()
    other = KeySource("file", str(tmp_path / "other"))
    note_source(path, other if where == "note" else None)
    key_file = Path(other.name) if where == "setting" else None

    with pytest.raises(UnavailableError) as missing:
        opened(path, key_file=key_file)
    other.write([make_key(other)])
    with pytest.raises(UnavailableError) as wrong:
        opened(path, key_file=key_file)

    assert missing.value.code == "key_missing"
    assert wrong.value.code == "key_wrong"
    assert "COMMONBRAIN_KEY_FILE" in str(missing.value)
    assert path.read_bytes() == before


def test_sealed_store_without_any_hint_says_that_it_is_sealed(
    path: Path, source: KeySource
) -> None:
    sealed(path, source)
    note_source(path, None)

    with pytest.raises(UnavailableError) as error:
        a_brain(path)

    assert error.value.code == "key_missing"


def test_key_file_that_others_may_read_is_refused(path: Path, source: KeySource) -> None:
    sealed(path, source)
    Path(source.name).chmod(0o644)

    with pytest.raises(InvalidInputError, match="chmod 600"):
        a_brain(path)


def test_plain_store_is_not_written_to_where_the_settings_name_a_key(
    path: Path, source: KeySource
) -> None:
    with a_brain(path):
        pass

    with pytest.raises(UnavailableError) as error:
        opened(path, key_file=Path(source.name))

    assert error.value.code == "not_sealed"


def test_store_that_could_not_be_made_is_made_and_noted_when_its_key_is_there(
    tmp_path: Path,
) -> None:
    path, source = tmp_path / "brain.db", KeySource("file", str(tmp_path / "key"))
    with pytest.raises(UnavailableError) as error:
        opened(path, key_file=Path(source.name))
    assert error.value.code == "key_missing"
    assert list(tmp_path.iterdir()) == []

    source.write([make_key(source)])
    path.touch()
    opened(path, key_file=Path(source.name)).close()

    with a_brain(path) as brain:
        assert brain.status().memories == 0


def test_older_key_in_the_file_opens_what_it_sealed(path: Path, source: KeySource) -> None:
    sealed(path, source)
    source.write([make_key(source), *source.read()])

    with a_brain(path) as brain:
        assert brain.status().memories == 1


def test_key_is_in_no_representation() -> None:
    key = make_key(KeySource("file", "k"))
    derived = derive_key("correct horse battery staple", b"0" * 16)

    assert key.digits not in repr(key)
    assert derived.digits not in repr(derived)
