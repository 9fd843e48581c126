"""A LangGraph store: https://github.com/langchain-ai/langgraph, `langgraph/store/base`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import chain, islice
from operator import ge, gt, le, lt
from typing import Any, Final, cast

from commonbrain.client import Brain
from commonbrain.extras import extra_missing
from commonbrain_adapters.keyed_values import KeyedValues, NewValue, Path, StoredValue, readable

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        get_text_at_path,
    )
except ImportError as error:
    raise extra_missing("langgraph", extra="langgraph") from error

_WHOLE: Final = "$"
"""The field path of the whole value."""
_ANY: Final = "*"
"""Matches any label of a namespace."""


class CommonbrainStore(BaseStore):
    """Keeps the items of a LangGraph store as memories of a brain.

    `store.search` with a query recalls by meaning and words; items that recall does not find
    follow, with a score of 0. Several processes and frameworks may use one brain.

    All methods raise `RejectedError` for a value that holds a secret or is larger than 256 KiB.
    """

    __slots__ = ("_fields", "_values", "ttl_config")
    supports_ttl = True

    def __init__(
        self, brain: Brain, *, fields: Sequence[str] = (_WHOLE,), ttl: TTLConfig | None = None
    ) -> None:
        """Create the store.

        Args:
            brain: where items are stored, with the project of the brain.
            fields: the fields by which items are found, as in LangGraph's `IndexConfig`.
            ttl: defaults of the time to live; expired items are never returned.

        """
        self._values = KeyedValues(brain.as_model(), "langgraph")
        self._fields = fields
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations; all of them read what was stored before the batch.

        If a value is refused, others of the batch may have been stored, and none is deleted.
        """
        every = list(ops)
        # All at once: one by one, values take twice as long.
        gets = self._get(op for op in every if isinstance(op, GetOp))
        results: list[Result] = []
        puts: dict[tuple[Path, str], PutOp] = {}
        for op in every:
            match op:
                case GetOp():
                    results.append(next(gets))
                case SearchOp():
                    results.append(self._search(op))
                case ListNamespacesOp():
                    results.append(self._list_namespaces(op))
                case PutOp():
                    # Of several values for one key, the last counts.
                    puts[op.namespace, op.key] = op
                    results.append(None)
        self._put(puts.values())
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _get(self, ops: Iterable[GetOp]) -> Iterator[Item | None]:
        """Yield the item of each operation; all are read at once."""
        every = list(ops)
        values = self._values.get_several([(op.namespace, op.key) for op in every], bump=True)
        for op, stored in zip(every, values, strict=True):
            if stored is None:
                yield None
                continue
            self._refresh([stored], is_requested=op.refresh_ttl)
            yield Item(
                value=stored.value,
                key=stored.key,
                namespace=stored.path,
                created_at=stored.created_at,
                updated_at=stored.updated_at,
            )

    def _search(self, op: SearchOp) -> list[SearchItem]:
        matching = (
            (one, score)
            for one, score in self._candidates(op)
            if not op.filter or _matches(one.value, op.filter)
        )
        page = list(islice(matching, op.offset, op.offset + op.limit))
        self._refresh([one for one, _ in page], is_requested=op.refresh_ttl)
        return [
            SearchItem(
                namespace=one.path,
                key=one.key,
                value=one.value,
                created_at=one.created_at,
                updated_at=one.updated_at,
                score=score,
            )
            for one, score in page
        ]

    def _candidates(self, op: SearchOp) -> Iterator[tuple[StoredValue, float | None]]:
        """Yield the items that answer a query, best first, then all others."""
        prefix = tuple(op.namespace_prefix)
        if not op.query:
            yield from ((one, None) for one in self._values.below(prefix))
            return
        answers = self._values.search(op.query, prefix)
        # Read only if the answers do not fill the page.
        rest = ((one, 0.0) for one in self._values.below(prefix))
        seen = set[tuple[Path, str]]()
        unindexed: list[StoredValue] = []
        for one, score in chain(answers, rest):
            if one.place in seen:
                continue
            seen.add(one.place)
            if one.options.get("is_indexed", True):
                yield one, score
            else:
                unindexed.append(one)
        # An item that is not indexed has no score, and may be found by its key only.
        yield from ((one, None) for one in unindexed)

    def _list_namespaces(self, op: ListNamespacesOp) -> list[Path]:
        conditions = op.match_conditions or ()
        # A prefix without wildcards is looked up, others are compared.
        prefixes = [
            tuple(condition.path)
            for condition in conditions
            if condition.match_type == "prefix" and _ANY not in condition.path
        ]
        below = self._values.below(max(prefixes, key=len, default=()))
        paths = {
            one.path for one in below if all(_is_match(one.path, match) for match in conditions)
        }
        namespaces = sorted({path[: op.max_depth] for path in paths})
        return namespaces[op.offset : op.offset + op.limit]

    def _put(self, ops: Iterable[PutOp]) -> None:
        every = list(ops)
        self._values.put([self._new(op, op.value) for op in every if op.value is not None])
        # Last, so that a refused value deletes nothing.
        for op in every:
            if op.value is None:
                self._values.delete(op.namespace, op.key)

    def _new(self, op: PutOp, value: Mapping[str, Any]) -> NewValue:
        return NewValue(
            path=tuple(op.namespace),
            key=op.key,
            value=value,
            text=self._text(op, value),
            options={"ttl": op.ttl, "is_indexed": op.index is not False},
            expires_at=None if op.ttl is None else self._values.now() + timedelta(minutes=op.ttl),
        )

    def _text(self, op: PutOp, value: Mapping[str, Any]) -> str:
        """Return the text by which a value is found; an empty one if it is not indexed."""
        if op.index is False:
            return ""
        texts: list[str] = []
        for path in self._fields if op.index is None else op.index:
            texts += [readable(value)] if path == _WHOLE else get_text_at_path(value, path)
        return "\n".join(filter(None, texts))

    def _refresh(self, values: Iterable[StoredValue], *, is_requested: bool) -> None:
        """Let the time to live of values that were read start again."""
        for one in values if is_requested else ():
            ttl = one.options.get("ttl")
            if isinstance(ttl, int | float):
                self._values.extend(one, timedelta(minutes=ttl))


def _is_match(namespace: Path, condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if len(namespace) < len(path):
        return False
    part = (
        namespace[: len(path)]
        if condition.match_type == "prefix"
        else namespace[len(namespace) - len(path) :]
    )
    return all(label in {_ANY, own} for own, label in zip(part, path, strict=True))


def _matches(value: object, expected: object) -> bool:
    """Return whether a value has the fields of a filter, or satisfies its operators."""
    if isinstance(expected, Mapping):
        given = cast("Mapping[str, object]", expected)
        if any(name.startswith("$") for name in given):
            return all(_satisfies(value, operator, expected=one) for operator, one in given.items())
        fields = cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None
        return fields is not None and all(
            _matches(fields.get(name), one) for name, one in given.items()
        )
    return value == (
        list(cast("Sequence[object]", expected)) if isinstance(expected, tuple) else expected
    )


def _satisfies(value: object, operator: str, *, expected: object) -> bool:
    if operator in {"$eq", "$ne"}:
        return (value == expected) is (operator == "$eq")
    if operator not in _COMPARISONS:
        raise ValueError(f"{operator!r} is not an operator; $eq, $ne, $gt, $gte, $lt and $lte are.")
    return any(_COMPARISONS[operator](*pair) for pair in _comparable(value, expected))


_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$gt": gt,
    "$gte": ge,
    "$lt": lt,
    "$lte": le,
}


def _comparable(value: Any, expected: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 any JSON
    """Yield the two as numbers, or as texts; nothing if they have no order."""
    if isinstance(value, str) and isinstance(expected, str):
        yield value, expected
        return
    if isinstance(value, str | int | float) and isinstance(expected, str | int | float):
        with suppress(ValueError):
            yield float(value), float(expected)
