"""Points of a local Qdrant store: the ids and payloads in `collection/<name>/storage.sqlite`.

qdrant-client (qdrant_client/local/persistence.py, 1.1.7 and later) stores each point as a pickle.
Unpickling could run any code that a file names, so here every class in it is replaced by one that
only holds its state: numbers, texts, lists and objects are read, and nothing is run.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Iterator, Mapping
from typing import Any, Final, Self
from uuid import UUID

from commonbrain.transfer.importer import Unreadable
from commonbrain.transfer.importers.json_lines import as_object
from commonbrain_import.databases import SqliteTables
from commonbrain_import.rows import Row

_POINT_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of one point; a vector has some KB, a payload hardly more."""


_TUPLES_MAX: Final = 16
"""Tuples in one point, which has about two. Tuples of tuples take exponential time to hash."""


def points(tables: SqliteTables, *, where: str) -> Iterator[Row | Unreadable]:
    """Yield the payload of every point with its id as `id`, in the order of writing."""
    for number, row in enumerate(tables.rows("points", ("point",), order="rowid"), 1):
        if isinstance(row, Unreadable):
            yield Unreadable(where=f"{where}, {row.where}", reason=row.reason)
            continue
        point = _point(row.get("point"))
        if point is None:
            yield Unreadable(where=f"{where}, point {number}", reason="It is not a Qdrant point.")
        else:
            yield point


class _Inert:
    """Replaces every class and function of a pickle; holds the state that was given to it."""

    state: object = None

    def __new__(cls, *_given: object, **_named: object) -> Self:
        return object.__new__(cls)

    def __init__(self, *given: object, **named: object) -> None:
        """Take any arguments and ignore them."""

    def __setstate__(self, state: object) -> None:
        self.state = state


class _InertUnpickler(pickle.Unpickler):
    def find_class(self, _module: str, _name: str, /) -> Any:  # noqa: ANN401 as in its base
        return _Inert


def _point(value: object) -> Row | None:
    if not isinstance(value, bytes) or len(value) > _POINT_BYTES_MAX:
        return None
    try:
        if not _is_bounded(value):
            return None
        point = _InertUnpickler(io.BytesIO(value)).load()
    except Exception:  # noqa: BLE001 a damaged pickle raises nearly anything
        return None
    fields = _state(point)
    # pydantic has the fields of a model in a mapping of their own.
    fields = as_object(fields.get("__dict__")) or fields
    payload, id_ = as_object(fields.get("payload")), _id(fields.get("id"))
    return {**payload, "id": id_} if payload is not None and id_ is not None else None


def _is_bounded(pickled: bytes) -> bool:
    """Return whether unpickling takes time and memory in proportion to the bytes."""
    tuples = 0
    for opcode, argument, _ in pickletools.genops(pickled):
        tuples += opcode.name in {"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"}
        # The memo is an array as long as its highest index.
        is_far = opcode.name.endswith("PUT") and int(argument or 0) > len(pickled)
        if is_far or tuples > _TUPLES_MAX:
            return False
    return True


def _state(value: object) -> Mapping[str, object]:
    state = as_object(value.state) if isinstance(value, _Inert) else None
    return state or {}


def _id(value: object) -> str | None:
    """Return an id as a text; a UUID is stored as a number."""
    number = _state(value).get("int")
    if isinstance(number, int) and 0 <= number < 1 << 128:
        return str(UUID(int=number))
    return str(value) if isinstance(value, str | int) else None
