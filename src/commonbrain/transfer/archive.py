"""Archives: every record of a tenant in one order, written to a file of JSON lines and read again.

A test checks that writing and reading agree.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast, get_type_hints

from pydantic import TypeAdapter, ValidationError

from commonbrain.model import ids, limits
from commonbrain.model.errors import (
    CommonbrainError,
    InvalidInputError,
    RejectedError,
    UnavailableError,
)
from commonbrain.model.kinds import KINDS, Kind
from commonbrain.model.links import Link
from commonbrain.model.memory import Memory, unread
from commonbrain.model.messages import Receipt, Thread
from commonbrain.model.revision import Revision
from commonbrain.model.scope import Caller, Role, who_may
from commonbrain.model.support import Review
from commonbrain.model.tasks import TaskDecision
from commonbrain.services import Capability
from commonbrain.storage.interface import Annotation
from commonbrain.transfer.importer import Unreadable

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedRecord:
    """A memory in any state, and the id of its last change: the later state wins."""

    memory: Memory
    changed: int


Record = Thread | ArchivedRecord | Link | Annotation | Revision | Receipt | Review | TaskDecision
"""Everything in a store that cannot be derived, in the order in which it is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLine:
    """A record, and the progress at its end, 0..1."""

    content: Record | Unreadable
    progress: float


_POINTERS: Final = {
    "superseded_by": ids.MEMORY,
    "source_message_id": ids.MEMORY,
    "memory_id": ids.MEMORY,
    "from_id": ids.MEMORY,
    "to_id": ids.MEMORY,
    "cause_id": ids.MEMORY,
    "via_id": ids.MEMORY,
    "parent_id": ids.MEMORY,
    "message_id": ids.MEMORY,
    "thread_id": ids.THREAD,
    "changed": ids.CHANGE,
}
"""Fields with an id, and the prefix with which it is shown."""
_OWN: Final = {
    "memory": ids.MEMORY,
    "thread": ids.THREAD,
    "annotation": ids.ANNOTATION,
    "change": ids.CHANGE,
}
"""Prefix of a record's own id; links, receipts and acknowledgements have none."""
_TYPES: Final[Mapping[str, type]] = {
    "thread": Thread,
    "link": Link,
    "annotation": Annotation,
    "change": Revision,
    "review": Review,
    "receipt": Receipt,
    "ack": TaskDecision,
}
_NAMES: Final = {type_: name for name, type_ in _TYPES.items()}
_KIND_OF: Final = {policy.detail: kind for kind, policy in KINDS.items()}

Fields = dict[str, Any]


class NotARecord(Exception):
    """An object that is not a record; the message gives the reason and quotes nothing."""


def to_json(record: Record) -> Fields:
    """Convert a record to an object with one key, the name of its type."""
    match record:
        case ArchivedRecord(memory=memory, changed=changed):
            # What the text says is read again by the store that takes it in.
            fields = _plain("memory", replace(memory, read=unread))
            fields["detail"] = _shown_detail(memory.detail)
            return {"memory": fields | _each({"changed": changed}, ids.show)}
        case Revision():
            images = {"before": record.before, "after": record.after}
            shown = {side: _shown_image(image) for side, image in images.items() if image}
            return {"change": _plain("change", record) | shown}
        case Thread() | Link() | Annotation() | Review() | Receipt() | TaskDecision():
            what = _NAMES[type(record)]
            return {what: _plain(what, record)}


def from_json(value: object) -> Record:
    """Convert the result of `to_json` to a record.

    Raises:
        NotARecord: it is something else, or has invalid values.

    """
    try:
        return _checked(_read(value))
    except ValidationError as error:
        wrong = {".".join(map(str, one["loc"])) or "record" for one in error.errors()}
        raise NotARecord(f"malformed: {', '.join(sorted(wrong))}") from error
    except CommonbrainError as error:
        raise NotARecord(str(error)) from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise NotARecord("not a record of this format") from error


def _read(value: Any) -> Record:  # noqa: ANN401 whatever a file holds
    [(what, given)] = value.items()
    fields = _each(given, ids.parse)
    if what in _OWN:
        fields["id"] = ids.parse(_OWN[what], given["id"])
    if what == "memory":
        changed = fields.pop("changed")
        fields["detail"] = _detail(fields.get("detail", {"kind": fields["kind"]}))
        return ArchivedRecord(
            memory=_bounded(_adapter(Memory).validate_python(fields)), changed=changed
        )
    if what == "change":
        fields |= {side: _image(fields.get(side, {})) for side in ("before", "after")}
    return _adapter(_TYPES[what]).validate_python(fields)


def _plain(what: str, record: object) -> Fields:
    """Return the fields without a default value as JSON, with ids as they are shown."""
    fields = _adapter(type(record)).dump_python(record, mode="json", exclude_defaults=True)
    if what in _OWN:
        fields["id"] = ids.show(_OWN[what], fields["id"])
    return _each(fields, ids.show)


def _shown_image(image: Mapping[str, object]) -> Fields:
    written = {
        name: _shown_detail(value)
        if name == "detail"
        else _field(name).dump_python(value, mode="json")
        for name, value in image.items()
    }
    return _each(written, ids.show)


def _shown_detail(detail: object) -> Fields:
    fields = _adapter(type(detail)).dump_python(detail, mode="json", exclude_defaults=True)
    return {"kind": _KIND_OF[type(detail)], **_each(fields, ids.show)}  # type: ignore[index]


def _image(given: Mapping[str, Any]) -> Fields:
    fields = _each(given, ids.parse)
    return {
        name: _detail(value) if name == "detail" else _field(name).validate_python(value)
        for name, value in fields.items()
    }


def _detail(given: Mapping[str, Any]) -> object:
    fields = dict(given)
    kind = Kind(fields.pop("kind"))
    return _adapter(KINDS[kind].detail).validate_python(_each(fields, ids.parse))


def _each(fields: Mapping[str, Any], turn: Callable[[str, Any], Any]) -> Fields:
    """Convert the ids among the fields."""
    return {
        name: turn(_POINTERS[name], value) if name in _POINTERS and value is not None else value
        for name, value in fields.items()
    }


_NUMBER_END: Final = ids.make_id(datetime(2100, 1, 1, tzinfo=UTC), 0)
"""Above every number and id that a store writes; ids up to 63 bits are left for later ones."""
_NUMBER_MIN: Final = -(2**31)


def _checked(record: Record) -> Record:
    _check_values(record)
    return record


def _check_values(value: object) -> None:
    """Check that the values of a record, at any depth, are such as a store writes.

    Raises:
        NotARecord: a number is out of range, a time has no zone, or a text is too long or has NUL.
        OverflowError: a time is not within the years 1 to 9999 in UTC.
        UnicodeEncodeError: half a surrogate pair is in a text.

    """
    match value:
        case str() if len(value.encode()) > limits.TEXT_BYTES_MAX or "\0" in value:
            raise NotARecord("a text is too long, or has NUL in it")
        case datetime(tzinfo=None):
            raise NotARecord("a time has no zone")
        case datetime():
            value.astimezone(UTC)
        case int() | float() if not _NUMBER_MIN <= value < _NUMBER_END:
            raise NotARecord("a number is out of range")
        case Mapping():
            _check_values(tuple(cast("Mapping[object, object]", value).values()))
        case tuple() | list():
            for one in cast("Sequence[object]", value):
                _check_values(one)
        case _ if is_dataclass(value):
            _check_values(tuple(getattr(value, one.name) for one in fields(value)))
        case _:
            pass


def _bounded(memory: Memory) -> Memory:
    if len(memory.body.encode()) > limits.TEXT_BYTES_MAX:
        raise NotARecord(f"the body is longer than {limits.TEXT_BYTES_MAX:,} bytes")
    if len(memory.headline) > limits.HEADLINE_CHARS_MAX:
        raise NotARecord(f"the headline is longer than {limits.HEADLINE_CHARS_MAX} characters")
    if not (0 <= memory.confidence <= 1 and 0 <= memory.salience <= 1):
        raise NotARecord("confidence and salience are 0 to 1")
    if min(memory.access_count, memory.superseded_count) < 0:
        raise NotARecord("a count is negative")
    return memory


@cache
def _adapter(type_: type) -> TypeAdapter[Any]:
    return TypeAdapter(type_)


@cache
def _field(name: str) -> TypeAdapter[Any]:
    """Return the parser of a field of an image: a memory's, or plain JSON."""
    return TypeAdapter(get_type_hints(Memory).get(name, object))


VERSION: Final = 1
_LINE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Far above the longest record; a longer line is invalid."""
_HEAD: Final = "commonbrain"
_END: Final = "end"


def write_archive(target: Path, records: Iterable[Record]) -> int:
    """Write all records to a new file or none, readable by its owner only; return their number.

    Raises:
        InvalidInputError: the file exists already, or its folder does not; nothing was written.
        UnavailableError: the disk is full or fails; no file is left.

    """
    if target.exists():
        raise InvalidInputError(f"{target} exists already.", hint="Name a new file, or remove it.")
    try:
        return _write_then_rename(target, records)
    except OSError as error:
        raise UnavailableError(
            f"{target} cannot be written: {error.strerror}.",
            hint="No file was left. Name a file on a disk with free space.",
        ) from error


def read_archive(source: Path) -> Iterator[ArchiveLine]:
    """Read the records in order, one in memory at a time.

    Raises:
        InvalidInputError: the file is missing, of another format or a newer version; raised before
            the first record. Also if the file ends too early, after the records before that.

    """
    try:
        stream = source.open("rb")
    except OSError as error:
        raise InvalidInputError(f"{source} cannot be read: {error.strerror}.") from error
    with ExitStack() as unless_read:
        unless_read.enter_context(stream)
        _check_head(stream, source)
        unless_read.pop_all()
    return _lines(stream, source)


def _write_then_rename(target: Path, records: Iterable[Record]) -> int:
    """Write under another name and rename, so that the target is complete or absent."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            count = _write_all(stream, records)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return count


def _write_all(stream: BinaryIO, records: Iterable[Record]) -> int:
    count = 0
    stream.write(_json({_HEAD: {"version": VERSION}}))
    for record in records:
        stream.write(_json(to_json(record)))
        count += 1
    stream.write(_json({_END: {"records": count}}))
    stream.flush()
    os.fsync(stream.fileno())
    return count


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _check_head(stream: BinaryIO, source: Path) -> None:
    match _value(stream.readline(_LINE_BYTES_MAX)):
        case {"commonbrain": {"version": int(version)}} if version > VERSION:
            raise InvalidInputError(
                f"{source} has version {version} of the format; up to {VERSION} is known.",
                hint="Upgrade Commonbrain.",
            )
        case {"commonbrain": {"version": int()}}:
            pass
        case _:
            raise InvalidInputError(
                f"{source} was not written by brain export.",
                hint="See brain import --help for the formats of others.",
            )


def _lines(stream: BinaryIO, source: Path) -> Iterator[ArchiveLine]:
    with stream:
        size = os.fstat(stream.fileno()).st_size
        count = 0
        while raw := stream.readline(_LINE_BYTES_MAX):
            match _value(raw):
                case {"end": {"records": int(expected)}} if expected == count:
                    return
                case value:
                    count += 1
                    content = _content(value, number=count)
                    yield ArchiveLine(content=content, progress=min(1.0, stream.tell() / size))
    raise InvalidInputError(
        f"{source} ends before its time: it was cut short, or changed by hand.",
        hint="What came before was taken in. Export again and import that.",
    )


def _content(value: object, *, number: int) -> Record | Unreadable:
    try:
        return from_json(value)
    except NotARecord as error:
        # The header is the first line of the file.
        return Unreadable(where=f"line {number + 1}", reason=str(error))


def _value(raw: bytes) -> Any:  # noqa: ANN401 whatever a file holds
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


_PAGE: Final = 500
"""Memories in memory at once; the file is as long as the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """What an export wrote, and where."""

    path: str
    memories: int
    records: int
    """Includes threads, links, annotations, changes, receipts and acknowledgements."""


class Export(Capability):
    """Exports for one caller."""

    def __call__(
        self, target: str | Path, *, on_progress: Callable[[float], None] = lambda _: None
    ) -> ExportResult:
        """Write every memory of the tenant to a new file, in every state and scope.

        Private memories of all agents are included: protect the file like the store. The audit,
        traces and vectors are not included.

        Args:
            target: a file that does not exist yet.
            on_progress: called with the progress, 0..1, after every 500 memories.

        Raises:
            RejectedError: `insufficient_role`, the caller is not an admin.
            InvalidInputError: the file exists already.
            UnavailableError: the store or the file cannot be used; no file is left.

        """
        check_may_move(self.caller)
        path = Path(target)
        with self.services.store.snapshot(self.caller.tenant) as tx:
            total = sum(tx.memories.counts().values())
            if self.services.guard is not None:
                self.services.guard.note_copy(
                    self.caller, action="export", subject=path.name, memories=total
                )
            records = write_archive(path, read_records(tx, total=total, on_progress=on_progress))
        return ExportResult(path=str(path), memories=total, records=records)


def check_may_move(caller: Caller) -> None:
    """Check that the caller is an admin.

    Raises:
        RejectedError: `insufficient_role`.

    """
    if caller.role is not Role.ADMIN:
        raise RejectedError(
            f"Agent {caller.agent} is a {caller.role}; export and its import are for admins.",
            code="insufficient_role",
            hint=who_may(caller, Role.ADMIN),
        )


def read_records(
    tx: Transaction, *, total: int, on_progress: Callable[[float], None]
) -> Iterator[Record]:
    """Yield all records so that each refers to earlier ones only."""
    yield from _threads(tx)
    for done, page in enumerate(_pages(tx), 1):
        latest = tx.changes.latest(page)
        for memory in tx.memories.get(page).values():
            yield ArchivedRecord(memory=memory, changed=latest.get(memory.id, 0))
        on_progress(min(1.0, done * _PAGE / max(total, 1)))
    for page in _pages(tx):
        yield from _related_records(tx, page)
    for page in _pages(tx):
        # They follow from the rest, except confirmations, and may refer to any two memories.
        for those in tx.reviews.of(page).values():
            yield from those


def _threads(tx: Transaction) -> Iterator[Record]:
    after = 0
    while page := tx.threads.page(after=after, limit=_PAGE):
        yield from page
        after = page[-1].id


def _pages(tx: Transaction) -> Iterator[list[int]]:
    after = -1
    while page := tx.memories.page(after=after, limit=_PAGE):
        yield page
        after = page[-1]


def _related_records(tx: Transaction, page: list[int]) -> Iterator[Record]:
    """Yield the records related to some memories; a link belongs to its first memory."""
    here = set(page)
    yield from (link for link in tx.links.touching(page) if link.from_id in here)
    for notes in tx.annotations.of(page).values():
        yield from notes
    yield from tx.changes.of(page)
    for receipts in tx.messages.of(page).values():
        yield from receipts
    for acks in tx.acks.of(page).values():
        yield from acks
