"""Scan of stored memories and messages for secrets that today's patterns find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final, cast

from commonbrain.ingestion.validation import describe_secret
from commonbrain.model import ids
from commonbrain.model.attachments import as_assigned, named_texts
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.limits import FORGET_AT_ONCE_MAX
from commonbrain.model.memory import Memory, is_erased
from commonbrain.model.scope import Role, is_visible
from commonbrain.model.timestamps import show_instant
from commonbrain.security.secrets import PATTERNS_VERSION, SecretScanner
from commonbrain.services import Capability
from commonbrain.storage.interface import (
    AccessEntry,
    AuditFilter,
    Finding,
    Progress,
    ignore_progress,
)

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_ACTION: Final = "secret_scan"
"""The line of the access audit that records a scan."""
_PAGE: Final = 200
"""Memories that are read in one transaction: some megabytes at most."""
_NO_TEXT: Final = frozenset({"semantic_hash", "payload"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSecret:
    """A memory or message that today's patterns would refuse."""

    id: str
    kind: str
    agent: str
    secrets: tuple[str, ...]
    """Type, field and position of each; never the secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretScan:
    """The result of a scan."""

    patterns: int
    """The version of the patterns."""
    scanned: int
    memories: tuple[StoredSecret, ...] = ()
    """Those that one call erases: 500 at most, oldest first."""
    count: int = 0
    hidden_count: int = 0
    """Further ones, in private memories of other agents; only admins learn how many."""
    erase: str | None = None
    """The call that erases those in `memories`; it shows a preview first."""


class ScanSecrets(Capability):
    """Scans the memories of the caller's tenant in any state."""

    def __call__(self, on_progress: Progress = ignore_progress) -> SecretScan:
        """Scan every memory; the audit of access records the version of the patterns.

        Raises:
            UnavailableError: the store cannot be read.

        """
        memories: list[StoredSecret] = []
        scanned = count = hidden = after = 0
        with self.services.store.snapshot(self.caller.tenant) as tx:
            total = max(sum(tx.memories.counts().values()), 1)
        while True:
            with self.services.store.snapshot(self.caller.tenant) as tx:
                page = tx.memories.page(after=after, limit=_PAGE)
                refused = list(_refused(tx, page, scanner=self.services.secret_scanner))
            if not page:
                break
            for memory, secrets in refused:
                if not is_visible(self.caller, memory):
                    hidden += 1
                    continue
                count += 1
                if len(memories) < FORGET_AT_ONCE_MAX:
                    memories.append(_stored_secret(memory, secrets))
            scanned, after = scanned + len(page), page[-1]
            on_progress(min(scanned / total, 1.0))
        # A store that is only readable is scanned all the same.
        with suppress(CommonbrainError):
            self._record(scanned)
        ids_found = " ".join(one.id for one in memories)
        return SecretScan(
            patterns=PATTERNS_VERSION,
            scanned=scanned,
            memories=tuple(memories),
            count=count,
            hidden_count=hidden if self.caller.role is Role.ADMIN else 0,
            erase=f'brain erase {ids_found} --reason "It held a secret."' if memories else None,
        )

    def finding(self, scan: SecretScan | None = None) -> Finding:
        """Describe a scan, or when the patterns changed since the last one."""
        if scan is not None:
            hidden = (
                f", {scan.hidden_count} more in others' private ones" if scan.hidden_count else ""
            )
            return Finding(
                check="secrets",
                is_sound=True,
                detail=f"{scan.count} of {scan.scanned} memories hold secrets{hidden}",
                hint=f"Change the secrets, then: {scan.erase}" if scan.erase else "",
            )
        with self.services.store.snapshot(self.caller.tenant) as tx:
            criteria = AuditFilter(action=_ACTION, is_of_access=True)
            lines = tx.audit.latest(criteria, before=None, limit=1)
            is_empty = not tx.memories.page(after=0, limit=1)
        if not lines:
            detail, is_due = "never scanned", not is_empty
        else:
            detail = f"scanned {show_instant(lines[0].at)} with patterns {lines[0].subject}"
            is_due = lines[0].subject != str(PATTERNS_VERSION)
        hint = f"brain doctor --secrets scans what is stored with patterns {PATTERNS_VERSION}."
        return Finding(check="secrets", is_sound=True, detail=detail, hint=hint if is_due else "")

    def _record(self, scanned: int) -> None:
        now = self.services.clock.now()
        entry = AccessEntry.by(self.caller, _ACTION, at=now, subject=str(PATTERNS_VERSION))
        with self.services.store.begin(self.caller.tenant) as tx:
            tx.credentials.note(replace(entry, count=max(scanned, 1)))


def _stored_secret(memory: Memory, secrets: Sequence[str]) -> StoredSecret:
    return StoredSecret(
        id=ids.show(ids.MEMORY, memory.id),
        kind=memory.kind,
        agent=memory.agent,
        secrets=tuple(secrets),
    )


def _refused(
    tx: Transaction, page: Sequence[int], *, scanner: SecretScanner
) -> Iterator[tuple[Memory, list[str]]]:
    """Yield the memories that would be refused, with descriptions of their secrets."""
    if not page:
        return
    memories, notes = tx.memories.get(page), tx.annotations.of(page)
    for id_ in page:
        memory = memories.get(id_)
        if memory is None or is_erased(memory):
            continue
        texts = [*_texts(memory), *(("annotation", one.text) for one in notes.get(id_, ()))]
        secrets = [
            describe_secret(match, text, what=name)
            for name, text in texts
            for match in scanner.find(text)
            if match.is_certain
        ]
        if secrets:
            yield memory, list(dict.fromkeys(secrets))


def _texts(memory: Memory) -> Iterator[tuple[str, str]]:
    """Yield every free text of a memory with the name of its field."""
    for one in fields(memory):
        if one.name not in _NO_TEXT:
            yield from _texts_in(one.name, getattr(memory, one.name))
    for name, text in named_texts(memory.payload):
        # A value may be a secret because of its name only.
        yield "attachment", as_assigned(name, text)


def _texts_in(name: str, value: object) -> Iterator[tuple[str, str]]:
    match value:
        case Enum():
            return
        case str():
            yield name, value
        case tuple() | list():
            for one in cast("Sequence[object]", value):
                yield from _texts_in(name, one)
        case Mapping():
            for key, one in cast("Mapping[str, object]", value).items():
                yield from _texts_in(key, one)
        case _ if is_dataclass(value):
            for one in fields(value):
                yield from _texts_in(one.name, getattr(value, one.name))
        case _:
            return
