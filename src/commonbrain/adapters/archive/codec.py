"""One record as a JSON object, and back; a test holds the two to each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, get_type_hints

from pydantic import TypeAdapter, ValidationError

from commonbrain.domain import ids, limits
from commonbrain.domain.action_items import Ack
from commonbrain.domain.cascade import Review
from commonbrain.domain.errors import CommonbrainError
from commonbrain.domain.kinds import KINDS, Kind
from commonbrain.domain.links import Link
from commonbrain.domain.memory import Memory, Thread
from commonbrain.domain.message import Receipt
from commonbrain.domain.revision import Change
from commonbrain.ports.archive import Kept, Record
from commonbrain.ports.history import Annotation

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
"""Fields that hold the id of something, and the prefix it is shown with."""
_OWN: Final = {
    "memory": ids.MEMORY,
    "thread": ids.THREAD,
    "annotation": ids.ANNOTATION,
    "change": ids.CHANGE,
}
"""What a record's own id is shown with; a link, a receipt or an ack has none."""
_TYPES: Final[Mapping[str, type]] = {
    "thread": Thread,
    "link": Link,
    "annotation": Annotation,
    "change": Change,
    "review": Review,
    "receipt": Receipt,
    "ack": Ack,
}
_NAMES: Final = {type_: name for name, type_ in _TYPES.items()}
_KIND_OF: Final = {policy.detail: kind for kind, policy in KINDS.items()}

Fields = dict[str, Any]


class NotARecord(Exception):
    """An object that is none of ours; the message says why and quotes nothing of it."""


def to_json(record: Record) -> Fields:
    """Write a record as an object of one key, the name of what it is."""
    match record:
        case Kept(memory=memory, changed=changed):
            return {"memory": _memory(memory) | _each({"changed": changed}, _show)}
        case Change():
            return {"change": _change(record)}
        case Thread() | Link() | Annotation() | Review() | Receipt() | Ack():
            what = _NAMES[type(record)]
            return {what: _plain(what, record)}


def from_json(value: object) -> Record:
    """Read what `to_json` wrote.

    Raises:
        NotARecord: it is something else, or holds what no memory may.

    """
    try:
        return _read(value)
    except ValidationError as error:
        wrong = {".".join(map(str, one["loc"])) or "record" for one in error.errors()}
        raise NotARecord(f"malformed: {', '.join(sorted(wrong))}") from error
    except CommonbrainError as error:
        raise NotARecord(str(error)) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NotARecord("not a record of this format") from error


def _read(value: Any) -> Record:  # noqa: ANN401 whatever a file holds
    [(what, given)] = value.items()
    fields = _each(given, _parse)
    if what in _OWN:
        fields["id"] = ids.parse(_OWN[what], given["id"])
    if what == "memory":
        changed = fields.pop("changed")
        fields["detail"] = _detail(fields.get("detail", {"kind": fields["kind"]}))
        return Kept(memory=_bounded(_adapter(Memory).validate_python(fields)), changed=changed)
    if what == "change":
        fields |= {side: _image(fields.get(side, {})) for side in ("before", "after")}
    return _adapter(_TYPES[what]).validate_python(fields)


def _memory(memory: Memory) -> Fields:
    fields = _plain("memory", memory)
    return fields | {"detail": _shown_detail(memory.detail)}


def _change(change: Change) -> Fields:
    fields = _plain("change", change)
    images = {"before": change.before, "after": change.after}
    return fields | {side: _shown_image(image) for side, image in images.items() if image}


def _plain(what: str, record: object) -> Fields:
    """Give the fields that are not as usual, as JSON values, with every id as it is shown."""
    fields = _adapter(type(record)).dump_python(record, mode="json", exclude_defaults=True)
    if what in _OWN:
        fields["id"] = ids.show(_OWN[what], fields["id"])
    return _each(fields, _show)


def _shown_image(image: Mapping[str, object]) -> Fields:
    written = {
        name: _shown_detail(value)
        if name == "detail"
        else _field(name).dump_python(value, mode="json")
        for name, value in image.items()
    }
    return _each(written, _show)


def _shown_detail(detail: object) -> Fields:
    fields = _adapter(type(detail)).dump_python(detail, mode="json", exclude_defaults=True)
    return {"kind": _KIND_OF[type(detail)], **_each(fields, _show)}  # type: ignore[index]


def _image(given: Mapping[str, Any]) -> Fields:
    fields = _each(given, _parse)
    return {
        name: _detail(value) if name == "detail" else _field(name).validate_python(value)
        for name, value in fields.items()
    }


def _detail(given: Mapping[str, Any]) -> object:
    fields = dict(given)
    kind = Kind(fields.pop("kind"))
    return _adapter(KINDS[kind].detail).validate_python(_each(fields, _parse))


def _each(fields: Mapping[str, Any], turn: Callable[[str, Any], Any]) -> Fields:
    """Turn the ids among the fields."""
    return {
        name: turn(_POINTERS[name], value) if name in _POINTERS and value is not None else value
        for name, value in fields.items()
    }


def _show(prefix: str, id_: int) -> str:
    return ids.show(prefix, id_)


def _parse(prefix: str, text: str) -> int:
    return ids.parse(prefix, text)


def _bounded(memory: Memory) -> Memory:
    if len(memory.body.encode()) > limits.TEXT_BYTES_MAX:
        raise NotARecord(f"the body is longer than {limits.TEXT_BYTES_MAX:,} bytes")
    if len(memory.headline) > limits.HEADLINE_CHARS_MAX:
        raise NotARecord(f"the headline is longer than {limits.HEADLINE_CHARS_MAX} characters")
    if not (0 <= memory.confidence <= 1 and 0 <= memory.salience <= 1):
        raise NotARecord("confidence and salience are 0 to 1")
    return memory


@cache
def _adapter(type_: type) -> TypeAdapter[Any]:
    return TypeAdapter(type_)


@cache
def _field(name: str) -> TypeAdapter[Any]:
    """Give how a field of an image is read: as a memory's, or as plain JSON beside it."""
    return TypeAdapter(get_type_hints(Memory).get(name, object))
