"""Commonbrain: one long-term memory that all your agents share.

import commonbrain

with commonbrain.open("brain.db") as brain:
    brain.remember("We chose Postgres over MySQL for row-level security", kind="fact")
    print(brain.recall("why postgres?").items[0].body)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, Unpack

if TYPE_CHECKING:
    from pathlib import Path

    from commonbrain.client import Brain, Identity
    from commonbrain.history.change_plan import ReviseResult
    from commonbrain.history.selection import BulkChangeResult
    from commonbrain.ingestion.result import ItemResult, ItemStatus, RememberResult
    from commonbrain.model.errors import (
        CommonbrainError,
        InvalidInputError,
        LimitExceededError,
        NotFoundError,
        RejectedError,
        StoreCorruptError,
        UnavailableError,
    )
    from commonbrain.model.kinds import Kind
    from commonbrain.model.memory import Draft
    from commonbrain.model.recall_result import Item, RecallResult, ResultStatus
    from commonbrain.model.scope import Scope, Trust
    from commonbrain.storage.interface import Backup, Progress, RestoreResult

__all__ = [
    "Backup",
    "Brain",
    "BulkChangeResult",
    "CommonbrainError",
    "Draft",
    "InvalidInputError",
    "Item",
    "ItemResult",
    "ItemStatus",
    "Kind",
    "LimitExceededError",
    "NotFoundError",
    "RecallResult",
    "RejectedError",
    "RememberResult",
    "RestoreResult",
    "ResultStatus",
    "ReviseResult",
    "Scope",
    "StoreCorruptError",
    "Trust",
    "UnavailableError",
    "open",
    "restore",
]


_PUBLIC_MODULES: Final = {
    "commonbrain.client": "Brain",
    "commonbrain.model.errors": (
        "CommonbrainError InvalidInputError LimitExceededError NotFoundError RejectedError "
        "StoreCorruptError UnavailableError"
    ),
    "commonbrain.model.kinds": "Kind",
    "commonbrain.model.memory": "Draft",
    "commonbrain.model.recall_result": "Item RecallResult ResultStatus",
    "commonbrain.model.scope": "Scope Trust",
    "commonbrain.history.selection": "BulkChangeResult",
    "commonbrain.ingestion.result": "ItemResult RememberResult ItemStatus",
    "commonbrain.history.change_plan": "ReviseResult",
    "commonbrain.storage.interface": "Backup RestoreResult",
}
"""The modules of the public names, which are imported on first use."""


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    module = next(
        (module for module, names in _PUBLIC_MODULES.items() if name in names.split()), None
    )
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)


def open(  # noqa: A001 the public name is open
    store: str | Path | None = None, *, tenant: str | None = None, **identity: Unpack[Identity]
) -> Brain:
    """Open a store, creating it if necessary, and return a brain.

    Args:
        store: the file; by default `COMMONBRAIN_STORE`, else one in the user's data folder.
        tenant: the tenant whose memories to use; by default `COMMONBRAIN_TENANT`, else the local
            one.
        identity: the caller; by default `COMMONBRAIN_AGENT`, else the login name.

    Raises:
        InvalidInputError: a setting or an environment variable is out of range.
        NotFoundError: there is no such tenant.
        UnavailableError: the file cannot be opened or stayed locked; it is unchanged.
        StoreCorruptError: the file is damaged, not a store, or of a newer version; it is unchanged.

    """
    # The wiring imports every adapter, which is not needed to import a name from here.
    from commonbrain.runtime.bootstrap import open_brain  # noqa: PLC0415

    return open_brain(store, tenant=tenant, **identity)


def restore(
    file: str | Path,
    store: str | Path | None = None,
    *,
    digest: str | None = None,
    on_progress: Progress | None = None,
) -> RestoreResult:
    """Replace a store that no process has open by a backup; the old file is kept next to it.

    Args:
        file: a file written by `brain.backup(...)`.
        store: the store to replace; by default the one that `open` would open.
        digest: the SHA-256 that the file must have, as returned by the backup.
        on_progress: called with the progress, 0..1.

    Raises:
        InvalidInputError: the file does not exist, is the store itself, or has another digest.
        UnavailableError: the store is open in another process, or its folder cannot be written.
        StoreCorruptError: the file is damaged, not a store, or of a newer version.

    """
    from commonbrain.runtime.stores import restore as restore_backup  # noqa: PLC0415
    from commonbrain.storage.interface import ignore_progress  # noqa: PLC0415

    return restore_backup(file, store, digest=digest, on_progress=on_progress or ignore_progress)
