"""Keys of sealed stores: where they are, and which of them opens a file.

SQLCipher encrypts every page of a sealed store and of its log. A key has 256 random bits, written
as 64 hexadecimal digits. A key file, or an entry in the keyring, may have several, one a line: the
first seals, the others open what was sealed before the key was changed.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import stat
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol, cast

from commonbrain.extras import load_extra
from commonbrain.model.errors import InvalidInputError, UnavailableError
from commonbrain.model.values import dataclass, field
from commonbrain.storage.sqlite import PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable

    class _Keyring(Protocol):
        """What is used of the library `keyring`."""

        get_password: Callable[[str, str], str | None]
        set_password: Callable[[str, str, str], None]


EXTRA: Final = "sealed"
NOTE: Final = ".sealed"
"""Of the file next to a store that says where its keys are; it has no key."""
ASK: Final[ContextVar[Callable[[str], str] | None]] = ContextVar("ASK", default=None)
"""Asks the person at a terminal for a passphrase, where there is one."""
HEADER_BYTES: Final = 4096
"""The first page, which shows whether a file is sealed and whether a key fits."""

# The format of SQLCipher 4, https://www.zetetic.net/sqlcipher/design: a salt instead of SQLite's
# own first bytes, and at the end of each page a vector and an HMAC-SHA512.
_SALT_BYTES: Final = 16
_HMAC_BYTES: Final = 64
_KEY_BYTES: Final = 32
_PASSPHRASE_ROUNDS: Final = 256_000
_MAC_KEY_ROUNDS: Final = 2
_MAC_SALT_MASK: Final = 0x3A
_PAGE_NUMBER: Final = (1).to_bytes(4, "little")

_DISTINCT_MIN: Final = 240
"""Different bytes in the first page of a sealed file: nearly all 256; in others far fewer."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
KEY_DIGITS: Final = 2 * _KEY_BYTES
_DIGITS: Final = re.compile(rf"[0-9a-fA-F]{{{KEY_DIGITS}}}")
_SERVICE: Final = "commonbrain"
_LOCK_S: Final = 10.0
"""Seconds to wait for another process that changes keys; it takes milliseconds."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a sealed store, as SQLCipher takes it."""

    digits: str = field(repr=False)
    """64 hexadecimal digits; with 32 more for the salt, if it was derived from a passphrase."""
    source: str
    """Where it is from, for messages."""

    @property
    def pragma(self) -> str:
        """The statement that gives it to a new connection."""
        return f"PRAGMA key = \"x'{self.digits}'\""

    def fits(self, page: bytes) -> bool:
        """Return whether the first page of a file was sealed with it."""
        key, salt = bytes.fromhex(self.digits)[:_KEY_BYTES], page[:_SALT_BYTES]
        masked = bytes(byte ^ _MAC_SALT_MASK for byte in salt)
        mac_key = hashlib.pbkdf2_hmac("sha512", key, masked, _MAC_KEY_ROUNDS, _KEY_BYTES)
        signed = page[_SALT_BYTES:-_HMAC_BYTES] + _PAGE_NUMBER
        return hmac.compare_digest(hmac.digest(mac_key, signed, "sha512"), page[-_HMAC_BYTES:])


def derive_key(passphrase: str, salt: bytes) -> Key:
    """Derive the key of a passphrase as SQLCipher does; takes about 0.2 s."""
    key = hashlib.pbkdf2_hmac("sha512", passphrase.encode(), salt, _PASSPHRASE_ROUNDS, _KEY_BYTES)
    return Key(key.hex() + salt.hex(), "a passphrase")


def make_salt() -> bytes:
    """Make the salt of a file that a passphrase will seal."""
    return os.urandom(_SALT_BYTES)


def make_key(source: KeySource) -> Key:
    """Make a random key."""
    return Key(os.urandom(_KEY_BYTES).hex(), str(source))


@dataclass(frozen=True, slots=True)
class KeySource:
    """A file, or an entry in the keyring of the system, that holds the keys of stores."""

    kind: Literal["file", "keyring"]
    name: str

    def __str__(self) -> str:
        """Name it, for messages."""
        return f"the file {self.name}" if self.kind == "file" else "the keyring"

    def read(self) -> list[Key]:
        """Return its keys, of which the first one seals; none if it does not exist.

        Raises:
            InvalidInputError: others may read the file, or it holds something else.
            UnavailableError: it cannot be read.

        """
        text = self._read_file() if self.kind == "file" else self._read_entry()
        lines = [line for line in map(str.strip, text.splitlines()) if line[:1] not in {"", "#"}]
        if not all(map(_DIGITS.fullmatch, lines)):
            raise InvalidInputError(
                f"There is a line in {self} that is no key.",
                code="key_invalid",
                hint=f"A key is a line of {KEY_DIGITS} hexadecimal digits, such as "
                f"`openssl rand -hex {_KEY_BYTES}` prints.",
            )
        return [Key(line.lower(), str(self)) for line in lines]

    def update(self, change: Callable[[list[Key]], list[Key]]) -> list[Key]:
        """Change its keys, and return them; several stores may share them.

        Raises:
            InvalidInputError: as for `read`.
            UnavailableError: they cannot be read or written; the former ones are unchanged.

        """
        keys = self.read()
        if change(keys) == keys:
            return keys
        try:
            with self._lock():
                keys = change(self.read())
                self.write(keys)
        except OSError as error:
            raise self._unavailable(error) from error
        return keys

    def _lock(self) -> AbstractContextManager[object]:
        """Exclude other changes; the entry of a store that was moved is that of one store."""
        from filelock import FileLock  # noqa: PLC0415 stores open without

        path = Path(self.name).resolve()
        lock = path.with_name(f".{path.name}.lock")
        return (
            FileLock(lock, timeout=_LOCK_S, mode=0o600) if path.parent.is_dir() else nullcontext()
        )

    def write(self, keys: list[Key]) -> None:
        """Write keys, newest first, so that only their owner can read them.

        Raises:
            UnavailableError: they cannot be written; the former ones are unchanged.

        """
        text = "".join(f"{key.digits}\n" for key in keys)
        try:
            if self.kind == "file":
                self._write_file(text)
            else:
                self._write_entry(text)
        except OSError as error:
            raise self._unavailable(error) from error

    def _read_file(self) -> str:
        path = Path(self.name)
        try:
            mode = path.stat().st_mode
            if os.name == "posix" and mode & _OTHERS:
                raise InvalidInputError(
                    f"Other users of this machine may open {self}.",
                    code="key_invalid",
                    hint=f"Make it yours alone: chmod 600 '{path}'",
                )
            return path.read_text("ascii")
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise self._unavailable(error) from error

    def _write_file(self, text: str) -> None:
        # A link stays one.
        path = Path(self.name).resolve()
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            with open(partial, "x", encoding="ascii", opener=_open_private) as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    def _read_entry(self) -> str:
        ring, error_type = _keyring()
        try:
            return ring.get_password(_SERVICE, self.name) or ""
        except (error_type, OSError) as error:
            raise self._unavailable(error) from error

    def _write_entry(self, text: str) -> None:
        ring, error_type = _keyring()
        try:
            ring.set_password(_SERVICE, self.name, text)
        except error_type as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception) -> UnavailableError:
        why = getattr(error, "strerror", None) or type(error).__name__
        return UnavailableError(
            f"The keys in {self} cannot be used: {why}.",
            code="key_missing",
            hint="Nothing was changed. Make it accessible, or name a file with the key in "
            "COMMONBRAIN_KEY_FILE.",
        )


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _keyring() -> tuple[_Keyring, type[Exception]]:
    """Return the library, and its errors."""
    ring = cast("_Keyring", load_extra("keyring", extra=EXTRA))
    return ring, load_extra("keyring.errors", extra=EXTRA).KeyringError


def source_of(store: Path, key_file: Path | None) -> KeySource | None:
    """Return where the keys of a store are: in the file of the settings, or as noted next to it."""
    if key_file is not None:
        return KeySource("file", str(key_file.expanduser().absolute()))
    with suppress(OSError, UnicodeDecodeError):
        kind, _, name = _note(store).read_text("utf-8").strip().partition(" ")
        if kind in {"file", "keyring"} and name:
            return KeySource(cast("Literal['file', 'keyring']", kind), name)
    return None


def note_source(store: Path, source: KeySource | None) -> None:
    """Note next to a store where its keys are."""
    if source is None:
        _note(store).unlink(missing_ok=True)
        return
    with open(_note(store), "w", encoding="utf-8", opener=_open_private) as file:
        file.write(f"{source.kind} {source.name}\n")


def _note(store: Path) -> Path:
    store = store.resolve()
    return store.with_name(store.name + NOTE)


def is_plain(page: bytes) -> bool:
    """Return whether a file begins as SQLite's own do."""
    return page.startswith(PLAIN)


def find_key(path: Path, page: bytes, *, source: KeySource | None) -> Key | None:
    """Return the key that opens a file, given its first page; None for one that is not sealed.

    Raises:
        UnavailableError: `key_missing`, there is no key; `key_wrong`, none fits.
        InvalidInputError: `key_invalid`, the keys cannot be used as they are.

    """
    if not page:
        return _first_key(path, source)
    if is_plain(page) or (source is None and len(set(page)) < _DISTINCT_MIN):
        # What is neither, SQLite has words for.
        return None
    keys = source.read() if source is not None else []
    fitting = next((key for key in keys if key.fits(page)), None) or _typed(path, page)
    if fitting is not None:
        return fitting
    if not keys:
        raise _missing(path, source)
    raise UnavailableError(
        f"None of the keys in {source} opens {path}: it was sealed with another one, or its first "
        "page is damaged.",
        code="key_wrong",
        hint="Nothing was changed. Name the file with its key in COMMONBRAIN_KEY_FILE.",
    )


def _first_key(path: Path, source: KeySource | None) -> Key | None:
    """Return the key for a new store."""
    if source is None:
        return None
    keys = source.read()
    if not keys:
        raise _missing(path, source)
    return keys[0]


_TYPED: Final[list[str]] = []
"""The passphrases that were typed in this process."""


def _typed(path: Path, page: bytes) -> Key | None:
    ask, salt = ASK.get(), page[:_SALT_BYTES]
    for passphrase in _TYPED:
        if (key := derive_key(passphrase, salt)).fits(page):
            return key
    if ask is None:
        return None
    passphrase = ask(f"Passphrase of {path}: ")
    if (key := derive_key(passphrase, salt)).fits(page):
        _TYPED.append(passphrase)
        return key
    raise UnavailableError(
        f"This passphrase does not open {path}.",
        code="key_wrong",
        hint="Nothing was changed. Try again; a passphrase that is lost cannot be recovered.",
    )


def _missing(path: Path, source: KeySource | None) -> UnavailableError:
    where = f"there is none in {source}" if source else "no key is known here"
    return UnavailableError(
        f"{path} is sealed, or no store, and {where}.",
        code="key_missing",
        hint="Nothing was changed. Name the file with its key in COMMONBRAIN_KEY_FILE; a "
        "passphrase is asked for at a terminal only. Without its key a store cannot be read.",
    )
