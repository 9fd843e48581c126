"""Commonbrain: one long-term memory that all your agents share.

import commonbrain

with commonbrain.open("brain.db") as brain:
    brain.remember("We chose Postgres over MySQL for row-level security", kind="fact")
    print(brain.recall("why postgres?").items[0].body)
"""

from pathlib import Path
from typing import Unpack

from commonbrain.brain import Brain, Identity
from commonbrain.domain.errors import (
    CommonbrainError,
    Corrupt,
    Invalid,
    NotFound,
    Refused,
    Unavailable,
)
from commonbrain.domain.kinds import Kind
from commonbrain.domain.memory import Draft
from commonbrain.domain.recollection import Item, Recollection, Verdict
from commonbrain.domain.scope import Scope
from commonbrain.domain.trust import Trust
from commonbrain.flows.remember.outcome import Outcome, Remembered, Status
from commonbrain.ports.keeping import Backup, Progress, Restored, unwatched

__all__ = [
    "Backup",
    "Brain",
    "CommonbrainError",
    "Corrupt",
    "Draft",
    "Invalid",
    "Item",
    "Kind",
    "NotFound",
    "Outcome",
    "Recollection",
    "Refused",
    "Remembered",
    "Restored",
    "Scope",
    "Status",
    "Trust",
    "Unavailable",
    "Verdict",
    "open",
    "restore",
]


def open(store: str | Path | None = None, **identity: Unpack[Identity]) -> Brain:  # noqa: A001
    """Open a store, making it if need be, and give the brain in it.

    Args:
        store: the file; by default `COMMONBRAIN_STORE`, else one in the user's data folder.
        identity: who acts; by default `COMMONBRAIN_AGENT`, else the login name.

    Raises:
        Invalid: a setting or an environment variable is out of bounds.
        Unavailable: the file cannot be opened or stayed locked; it was left as found.
        Corrupt: the file is damaged, not a store, or of a newer version; it was left as found.

    """
    # The wiring knows every adapter; it is not paid for by who only needs a name from here.
    from commonbrain.wiring import open_brain  # noqa: PLC0415

    return open_brain(store, **identity)


def restore(
    file: str | Path,
    store: str | Path | None = None,
    *,
    digest: str | None = None,
    on_progress: Progress = unwatched,
) -> Restored:
    """Put a backup in the place of a store that nobody has open; the old one is kept beside it.

    Args:
        file: what `brain.backup(...)` wrote.
        store: what to replace; by default the store that `open` would open.
        digest: the SHA-256 that the file must have, as the backup told it.
        on_progress: told how far it has come, 0..1.

    Raises:
        Invalid: the file is not there, is the store itself, or has another digest.
        Unavailable: the store is open in another process, or its folder cannot be written.
        Corrupt: the file is damaged, not a store, or of a newer version.

    """
    from commonbrain.wiring import restore as put_back  # noqa: PLC0415

    return put_back(file, store, digest=digest, on_progress=on_progress)
