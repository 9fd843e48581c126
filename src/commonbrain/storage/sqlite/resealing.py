"""Seals a store, changes its key, or unseals it: a new file replaces the old one at once.

A crash leaves the one or the other, whole: keys are written, and the source noted, before the new
file takes its place, and the keys of its source open both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from commonbrain.model.errors import InvalidInputError, UnavailableError
from commonbrain.storage.interface import Holdings, Progress
from commonbrain.storage.sqlite import backup
from commonbrain.storage.sqlite.driver import driver
from commonbrain.storage.sqlite.file import StoreFile, found_file, known_copies, read_header
from commonbrain.storage.sqlite.sealing import (
    KEY_DIGITS,
    Key,
    KeySource,
    derive_key,
    is_plain,
    make_key,
    make_salt,
    note_source,
)

PASSPHRASE_CHARS_MIN: Final = 15
"""For what one factor alone protects, NIST SP 800-63B-4, 3.1.1.2."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SealPlan:
    """What sealing or unsealing a store changes."""

    store: str
    holds: Holdings
    sealed_by: str | None
    """Where the key that opens it now is from; None if it is plain."""
    seals_with: str | None
    """Where the key is from that will open it; None if it will be plain."""
    plain_copies: tuple[str, ...]
    """Known backups and replaced stores that are not sealed and stay as they are."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sealing:
    """How to seal a store."""

    source: KeySource | None = None
    """Where its keys are to be; made there if there are none."""
    passphrase: str | None = dataclasses.field(default=None, repr=False)
    """Instead of a source."""
    is_rotation: bool = False
    """Change the key of a sealed store."""


def plan_sealing(store: Path, sealing: Sealing | None, *, key_file: Path | None = None) -> SealPlan:
    """Check what a store holds and which copies of it are plain; changes nothing.

    Args:
        store: its path.
        sealing: how to seal it; None to unseal it.
        key_file: the file with its key, as the settings have it.

    Raises:
        InvalidInputError: there is no store, it is sealed already or not at all, the settings name
            another key, or the passphrase is too short; `extra_missing`.
        UnavailableError: it cannot be read, or its key is missing.
        StoreCorruptError: it is damaged, not a store, or newer.

    """
    driver(is_sealed=True)
    if not store.exists():
        raise InvalidInputError(
            f"There is no store at {store}.",
            hint="To make a sealed one, name a file with a key in COMMONBRAIN_KEY_FILE and open "
            "it, with `brain doctor` for example.",
        )
    file = found_file(store, key_file=key_file)
    _check_change(file, sealing)
    if (names := file.opened.st_nlink) > 1:
        raise InvalidInputError(
            f"The store {file.path} has {names} names (hard links), and the others would not be "
            "changed.",
            hint="Delete the others, which `find FOLDER -samefile FILE` lists, and try again.",
        )
    _check_source(sealing, key_file)
    file.check_writable()
    return SealPlan(
        store=str(file.path),
        holds=backup.holdings_of(file),
        sealed_by=file.key and file.key.source,
        seals_with=sealing and str(sealing.source or "a passphrase"),
        plain_copies=tuple(map(str, _plain_copies(file.path))),
    )


def _check_change(file: StoreFile, sealing: Sealing | None) -> None:
    is_sealed = file.key is not None
    if sealing is None or sealing.is_rotation:
        if not is_sealed:
            raise InvalidInputError(
                f"The store {file.path} is not sealed.", hint="`brain seal` seals it."
            )
    elif is_sealed:
        raise InvalidInputError(
            f"The store {file.path} is sealed already.", hint="Add --rotate to change its key."
        )


def _check_source(sealing: Sealing | None, key_file: Path | None) -> None:
    named = key_file and key_file.expanduser().resolve()
    if sealing is None:
        if named:
            raise InvalidInputError(
                "COMMONBRAIN_KEY_FILE is set, and no plain store is opened with it.",
                hint="Unset it wherever the store is used, then try again.",
            )
        return
    if named and not (sealing.source and Path(sealing.source.name).resolve() == named):
        raise InvalidInputError(
            f"COMMONBRAIN_KEY_FILE says that the key is in the file {named}.",
            hint="Seal the store with that file, or unset the variable.",
        )
    if sealing.source is None and len(sealing.passphrase or "") < PASSPHRASE_CHARS_MIN:
        raise InvalidInputError(
            f"A passphrase has at least {PASSPHRASE_CHARS_MIN} characters.",
            hint="Choose a longer one, such as five random words.",
        )


def _plain_copies(store: Path) -> Iterator[Path]:
    for copy in known_copies(store):
        with suppress(OSError), copy.open("rb") as file:
            if is_plain(file.read(64)):
                yield copy


def reseal(
    store: Path, sealing: Sealing | None, *, on_progress: Progress, key_file: Path | None = None
) -> SealPlan:
    """Replace a store that no process has open by a verified copy with another key, or with none.

    Args:
        store: its path.
        sealing: how to seal it; None to unseal it.
        on_progress: called with the progress, 0..1.
        key_file: the file with its key, as the settings have it.

    Raises:
        InvalidInputError: as for `plan_sealing`; the store is unchanged.
        UnavailableError: `store_in_use`, another process has it open, or there is no space; the
            store is unchanged.
        StoreCorruptError: it is damaged, not a store, or newer; it is unchanged.

    """
    plan = plan_sealing(store, sealing, key_file=key_file)
    file = found_file(store, key_file=key_file)
    source = sealing and sealing.source
    module = driver(is_sealed=True)
    with (
        backup.connected(file, wait_s=backup.WAIT_S, sqlite=module) as connection,
        backup.partial_path(file.path) as partial,
    ):
        backup.lock_out_others(connection, file, sqlite=module)
        backup.drop_partials(file.path, but=partial)
        key = _key_for(sealing, file)
        backup.copy_store(connection, partial, origin=file, key=key, on_progress=on_progress)
        if source is not None:
            _check_key_exists(source, partial)
            note_source(file.path, source)
        partial.replace(file.path)
        backup.sync_folder(file.path.parent)
        if source is None:
            note_source(file.path, None)
    return plan


def _key_for(sealing: Sealing | None, file: StoreFile) -> Key | None:
    """Return the new key of a store, after it was written to its source."""
    if sealing is None:
        return None
    source = sealing.source
    if source is None:
        return derive_key(sealing.passphrase or "", make_salt())
    former = file.key and dataclasses.replace(
        file.key, digits=file.key.digits[:KEY_DIGITS], source=str(source)
    )

    def with_new(keys: list[Key]) -> list[Key]:
        if not keys or (sealing.is_rotation and former in keys):
            keys = [make_key(source), *keys]
        # The former one opens the store until it is replaced, and older backups for ever.
        return keys if former is None or former in keys else [*keys, former]

    return source.update(with_new)[0]


def _check_key_exists(source: KeySource, partial: Path) -> None:
    """Check that the keys of a source, read again, open a new file: others may have changed them.

    Raises:
        UnavailableError: `key_missing`, none does.

    """
    page = read_header(partial)
    if not any(key.fits(page) for key in source.read()):
        raise UnavailableError(
            f"The new key is not in {source} any more: something else changed it meanwhile.",
            code="key_missing",
            hint="The store is unchanged. Try again.",
        )
