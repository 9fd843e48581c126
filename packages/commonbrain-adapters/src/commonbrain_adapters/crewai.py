"""A storage of CrewAI's memory on a shared server.

Its interface: https://github.com/crewAIInc/crewAI, `crewai/memory/storage/backend.py`.

A record is a memory of kind `message`. Its text is the content by which it is found, its attachment
the record; its tags are the id, the scope, each scope above it, the categories and the time of the
creation, so that a lookup reads an index. An update supersedes the memory; a deletion forgets it.
"""

# The library may not be installed where types are checked, so that its types are unknown there.
# pyright: reportMissingImports=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false
# The blocking and the awaitable form of a method start it from outside of the class.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from hashlib import sha256
from operator import attrgetter
from threading import Thread
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar
from urllib.parse import quote, unquote

from commonbrain_client.client import CommonbrainClient
from commonbrain_client.errors import ClientError, ProblemError
from commonbrain_client.generated import models
from commonbrain_client.generated.types import UNSET

try:
    from crewai.memory.types import MemoryRecord, ScopeInfo
except ImportError as error:
    raise ImportError(
        "commonbrain_adapters.crewai needs CrewAI: run `pip install 'crewai>=1.15,<2'`."
    ) from error

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_NAME: Final = "crewai"
"""The store in attachments, and the first part of tags."""
_SCOPE_TAG: Final = f"{_NAME}:/"
_CATEGORY_TAG: Final = f"{_NAME}="
_TIME_TAG: Final = f"{_NAME}@"
# Limits of the server. A text is shortened to its limit; an attachment may have 256 KiB.
_ITEMS_PER_CALL: Final = 100
_IDS_PER_GET: Final = 20
_PAGE: Final = 200
_ITEMS_PER_RECALL: Final = 100
_TOKENS_PER_RECALL: Final = 32_000
_QUERY_CHARS: Final = 2000
_TEXT_BYTES: Final = 16 * 1024
_ATTEMPTS: Final = 5
"""Updates of one record before giving up: each failure means that another writer was faster."""
_OVERTAKEN: Final = frozenset({"already_superseded", "not_current"})
_HASH_BYTES: Final = 32
_BYTE_WEIGHT: Final = 2.0**-20
"""Makes the text in a vector too small to matter to a cosine; a power of two loses no digit."""


class RecordRefusedError(ClientError):
    """The server did not store a record; `code` is stable, `hint` is the next step."""

    def __init__(self, record: MemoryRecord, outcome: models.ItemResult) -> None:
        reason = outcome.reason or f"It is {outcome.status}."
        super().__init__(
            f"Record {record.id} is not stored: {reason} {outcome.hint or ''}".rstrip()
        )
        self.record_id: Final[str] = record.id
        self.code: Final = str(outcome.code or outcome.status)
        self.hint: Final = str(outcome.hint or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """What a list shows of a record."""

    memory_id: str
    scope: str
    categories: Sequence[str]
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Selection:
    """The records of a scope and those below it that meet all of the other conditions."""

    scope: str | None = None
    categories: Sequence[str] | None = None
    """One of these."""
    ids: Sequence[str] | None = None
    older_than: datetime | None = None
    metadata: Mapping[str, Any] | None = None

    def tags(self) -> list[str]:
        """Return tags that all selected records have."""
        only = self.categories if self.categories and len(self.categories) == 1 else ()
        return [_scope_tag(self.scope), *map(_category_tag, only)]

    def has(self, entry: _Entry) -> bool:
        """Return whether a record is selected, as far as a list shows it."""
        return (not self.categories or not set(self.categories).isdisjoint(entry.categories)) and (
            self.older_than is None or entry.created_at < _naive(self.older_than)
        )

    def has_record(self, record: MemoryRecord) -> bool:
        """Return whether a record has one of the categories, and the metadata."""
        return (not self.categories or not set(self.categories).isdisjoint(record.categories)) and (
            not self.metadata
            or all(record.metadata.get(name) == one for name, one in self.metadata.items())
        )


def _blocking(
    method: Callable[Concatenate[CommonbrainStorage, Arguments], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[CommonbrainStorage, Arguments], Result]:
    """Return a method that waits for the result of an asynchronous one."""

    @wraps(method)
    def call(
        storage: CommonbrainStorage, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        return storage._start(method(storage, *args, **kwargs)).result()  # noqa: SLF001 a method

    return call


def _awaitable(
    method: Callable[Concatenate[CommonbrainStorage, Arguments], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[CommonbrainStorage, Arguments], Coroutine[Any, Any, Result]]:
    """Return a method that runs an asynchronous one in the event loop of its storage."""

    @wraps(method)
    async def call(
        storage: CommonbrainStorage, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        started = storage._start(method(storage, *args, **kwargs))  # noqa: SLF001 a method
        return await asyncio.wrap_future(started)

    return call


class CommonbrainStorage:
    """Keeps the records of a CrewAI `Memory` as memories of a shared server.

    Pass it with its own embedder, `Memory(storage=storage, embedder=storage.embed)`: the server
    embeds and searches the texts itself. Methods may be called from several threads; those that are
    asynchronous do not block the event loop.

    All methods raise `ClientError` if the server refuses, fails or does not answer.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        project: str | None = None,
        client: CommonbrainClient | None = None,
    ) -> None:
        """Make a storage; it connects when it is first used.

        Args:
            url: the server's address, such as `http://127.0.0.1:8377`.
            key: an API key or a token; none for a server that was started with `--open`.
            project: records belong to it, and those of others are not seen.
            client: used instead of a new one, for other timeouts and retries; `close` closes it.

        """
        self._client = client or CommonbrainClient(url, key=key)
        self._project = project
        # CrewAI calls from several threads, but connections belong to one event loop.
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="commonbrain", daemon=True)
        self._thread.start()

    def __deepcopy__(self, memo: object) -> Self:
        """Return itself: copies of a crew share the connections."""
        return self

    @staticmethod
    def embed(texts: Sequence[str]) -> list[list[float]]:
        """Return vectors that contain the texts, because CrewAI passes on vectors only.

        Those of different texts are nearly orthogonal: of what CrewAI saves at once, it drops
        repetitions only.
        """
        return [_vector(text) for text in texts]

    def close(self) -> None:
        """Close the connections and end the thread."""
        if self._loop.is_closed():
            return
        self._start(self._client.aclose()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _save(self, records: list[MemoryRecord]) -> None:
        """Store records.

        Raises:
            RecordRefusedError: a record holds a secret or is too large; the others are stored.

        """
        refused: list[RecordRefusedError] = []
        for some in _parts(records, _ITEMS_PER_CALL):
            reply = await self._client.remember(
                models.RememberRequest(text=UNSET, items=[self._item(record) for record in some])
            )
            refused += [
                RecordRefusedError(record, outcome)
                for record, outcome in zip(some, reply.items, strict=True)
                if outcome.status is not models.ItemStatus.STORED
            ]
        if refused:
            raise refused[0]

    save, asave = _blocking(_save), _awaitable(_save)

    async def _search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """Recall records by the vector of a query, best first, with scores of 0 to 1.

        Raises:
            ValueError: the vector is not one of `embed`.

        """
        query = _text(query_embedding)
        if limit <= 0:
            return []
        selection = _Selection(scope=scope_prefix, categories=categories, metadata=metadata_filter)
        is_filtered = categories or metadata_filter
        reply = await self._client.recall(
            models.RecallRequest(
                query=query[:_QUERY_CHARS],
                tags=selection.tags(),
                project=self._project,
                max_items=_ITEMS_PER_RECALL if is_filtered else min(limit, _ITEMS_PER_RECALL),
                max_tokens=_TOKENS_PER_RECALL,
                trust_min=0.0,
            )
        )
        scores = {item.id: item.score for item in reply.items if item.score >= min_score}
        results: list[tuple[MemoryRecord, float]] = []
        async for id_, record in self._records(list(scores)):
            if selection.has_record(record):
                results.append((record, scores.get(id_, 0.0)))
                if len(results) >= limit:
                    break
        return results

    search, asearch = _blocking(_search), _awaitable(_search)

    async def _delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Forget the records that meet all conditions; return their number."""
        selection = _Selection(
            scope=scope_prefix,
            categories=categories,
            ids=record_ids,
            older_than=older_than,
            metadata=metadata_filter,
        )
        chosen = [entry.memory_id for entry in await self._entries(selection)]
        if selection.metadata:
            records = self._records(chosen)
            chosen = [id_ async for id_, record in records if selection.has_record(record)]
        return sum([await self._forget(some) for some in _parts(chosen, _ITEMS_PER_CALL)])

    delete, adelete = _blocking(_delete), _awaitable(_delete)

    def reset(self, scope_prefix: str | None = None) -> None:
        """Forget the records of a scope and those below it, by default all of the project."""
        self.delete(scope_prefix)

    @_blocking
    async def update(self, record: MemoryRecord) -> None:
        """Replace the record with its id; the old one stays as history.

        Raises:
            RecordRefusedError: the record holds a secret or is too large; the old one stays.

        """
        for _ in range(_ATTEMPTS):
            entries = await self._entries(_Selection(ids=[record.id]))
            if not entries:
                await self._save([record])
                return
            [view] = await self._views([entries[0].memory_id])
            attachment = _attachment(record, revision=view.superseded_count + 1)
            request = models.ReviseSupersedeRequest(
                id=view.id,
                text=_shortened(record),
                reason="updated by CrewAI",
                tags=_tags(record),
                attachment=models.ReviseSupersedeRequestAttachment.from_dict(attachment),
            )
            try:
                reply = await self._client.revise(request)
            except ProblemError as error:
                if error.code not in _OVERTAKEN:
                    raise
            else:
                if reply.status is not models.ChangeStatus.DONE:
                    refused = reply.outcome or models.ItemResult(models.ItemStatus.REJECTED)
                    raise RecordRefusedError(record, refused)
                return
        raise ClientError(f"Others update record {record.id} at the same time.")

    @_blocking
    async def get_record(self, record_id: str) -> MemoryRecord | None:
        """Return the record with an id; None if there is none."""
        entries = await self._entries(_Selection(ids=[record_id]))
        async for _, record in self._records([entry.memory_id for entry in entries[:1]]):
            return record
        return None

    @_blocking
    async def list_records(
        self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0
    ) -> list[MemoryRecord]:
        """Return records of a scope and those below it, last created first."""
        entries = await self._entries(_Selection(scope=scope_prefix))
        start = max(offset, 0)
        chosen = [entry.memory_id for entry in entries[start : start + max(limit, 0)]]
        return [record async for _, record in self._records(chosen)]

    @_blocking
    async def get_scope_info(self, scope: str) -> ScopeInfo:
        """Return the number, the categories and the times of the records of a scope."""
        entries = await self._entries(_Selection(scope=scope))
        times = [entry.created_at for entry in entries]
        return ScopeInfo(
            path=_path(scope),
            record_count=len(entries),
            categories=sorted({name for entry in entries for name in entry.categories}),
            oldest_record=min(times, default=None),
            newest_record=max(times, default=None),
            child_scopes=_children(entries, scope),
        )

    @_blocking
    async def list_scopes(self, parent: str = "/") -> list[str]:
        """Return the scopes immediately below one that have records."""
        return _children(await self._entries(_Selection(scope=parent)), parent)

    @_blocking
    async def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """Return the categories in a scope, with the number of their records."""
        entries = await self._entries(_Selection(scope=scope_prefix))
        return dict(Counter(name for entry in entries for name in entry.categories))

    @_blocking
    async def count(self, scope_prefix: str | None = None) -> int:
        """Return the number of records of a scope and those below it."""
        return len(await self._entries(_Selection(scope=scope_prefix)))

    def _start(self, call: Coroutine[Any, Any, Result]) -> Future[Result]:
        if self._loop.is_closed():
            call.close()
            # CrewAI drops what it saves without a word if this is a RuntimeError.
            raise ClientError("The storage is closed.")
        return asyncio.run_coroutine_threadsafe(call, self._loop)

    def _item(self, record: MemoryRecord) -> models.RememberItem:
        return models.RememberItem(
            text=_shortened(record),
            # Messages accept any text, do not decay and are compared with nothing.
            kind="message",
            project=self._project,
            scope="private" if record.private else UNSET,
            tags=_tags(record),
            source_ref=f"{_NAME}:{record.id}",
            occurred_at=_aware(record.created_at),
            attachment=models.RememberItemAttachment.from_dict(_attachment(record, revision=0)),
        )

    async def _forget(self, ids: Sequence[str]) -> int:
        request = models.ForgetForgetRequest(ids=list(ids), reason="deleted by CrewAI")
        result = await self._client.forget(request)
        if result.status is models.Phase.PREVIEW:
            request.confirm = result.count or UNSET
            result = await self._client.forget(request)
        if result.status is models.Phase.PROPOSED or result.skipped_count:
            why = [one.why for one in result.skipped or () if one.why] or [result.hint]
            raise ClientError(f"Not all records can be deleted: {why[0] or result.status}")
        return result.count or 0

    async def _entries(self, selection: _Selection) -> list[_Entry]:
        """Return the selected records, last created first, apart from the condition of metadata."""
        entries: list[_Entry] = []
        for tags in [[]] if selection.ids is None else [[_id_tag(id_)] for id_ in selection.ids]:
            cursor: str | None = None
            while True:
                page = await self._client.list_(
                    models.ListRequest(
                        tags=[*selection.tags(), *tags],
                        project=self._project or "",
                        limit=_PAGE,
                        cursor=cursor,
                    )
                )
                entries += [one for one in map(_entry, page.memories) if selection.has(one)]
                cursor = page.next_ or None
                if cursor is None:
                    break
        return sorted(entries, key=attrgetter("created_at"), reverse=True)

    async def _views(self, ids: Sequence[str]) -> Sequence[models.GetResponse | models.MemoryView]:
        first = await self._client.get(models.GetRequest(id=list(ids)))
        return [first, *(first.more or ())]

    async def _records(self, ids: Sequence[str]) -> AsyncIterator[tuple[str, MemoryRecord]]:
        """Yield the records of those memories that hold one of this project, with their ids."""
        for some in _parts(ids, _IDS_PER_GET):
            for view in await self._views(some):
                attached = view.attachment.to_dict() if view.attachment else {}
                if attached.get("store") != _NAME or view.project != self._project:
                    continue
                record = MemoryRecord.model_validate(attached["record"])
                if view.superseded_count != attached["revision"]:
                    # Somebody corrected the text, and the revision inherited the attachment.
                    record = record.model_copy(update={"content": view.body or ""})
                yield view.id, record


def _attachment(record: MemoryRecord, *, revision: int) -> dict[str, Any]:
    return {"store": _NAME, "revision": revision, "record": record.model_dump(mode="json")}


def _shortened(record: MemoryRecord) -> str:
    """Return as much of the content as a text may have; the attachment has all of it."""
    encoded = record.content.encode("utf-8", "replace")[:_TEXT_BYTES]
    return encoded.decode("utf-8", "ignore").strip() or str(record.id)


def _tags(record: MemoryRecord) -> list[str]:
    names = _names(record.scope)
    scopes = [_scope_tag("/".join(names[:depth])) for depth in range(len(names) + 1)]
    created = f"{_TIME_TAG}{_naive(record.created_at).isoformat()}"
    return [*scopes, *map(_category_tag, record.categories), _id_tag(record.id), created]


def _scope_tag(scope: str | None) -> str:
    return f"{_SCOPE_TAG}{'/'.join(_quoted(name) for name in _names(scope))}"


def _category_tag(category: str) -> str:
    return f"{_CATEGORY_TAG}{_quoted(category)}"


def _id_tag(record_id: str) -> str:
    return f"{_NAME}#{_quoted(record_id)}"


def _quoted(name: str) -> str:
    return quote(name, safe="", errors="surrogatepass")


def _entry(memory: models.ListedMemory) -> _Entry:
    scopes = _tagged(memory, _SCOPE_TAG)
    times = _tagged(memory, _TIME_TAG)
    return _Entry(
        memory_id=memory.id,
        scope=max(scopes, key=len, default=""),
        categories=_tagged(memory, _CATEGORY_TAG),
        # A correction by a person happens later than the record was created.
        created_at=datetime.fromisoformat(times[0]) if times else _naive(memory.occurred_at),
    )


def _tagged(memory: models.ListedMemory, start: str) -> list[str]:
    return [unquote(tag.removeprefix(start)) for tag in memory.tags if tag.startswith(start)]


def _names(scope: str | None) -> list[str]:
    return [name for name in (scope or "").split("/") if name]


def _path(scope: str | None) -> str:
    return "/" + "/".join(_names(scope))


def _children(entries: Iterable[_Entry], parent: str) -> list[str]:
    depth = len(_names(parent))
    paths = (_names(entry.scope) for entry in entries)
    return sorted({_path("/".join(names[: depth + 1])) for names in paths if len(names) > depth})


def _aware(time: datetime) -> datetime:
    """Return a time of a record with its zone; without one, it is in UTC."""
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _naive(time: datetime) -> datetime:
    """Return a time as CrewAI compares it: in UTC, without its zone."""
    return _aware(time).astimezone(UTC).replace(tzinfo=None)


def _parts(several: Sequence[Result], size: int) -> Iterator[Sequence[Result]]:
    for start in range(0, len(several), size):
        yield several[start : start + size]


def _vector(text: str) -> list[float]:
    """Return the hash of a text, which decides a cosine, followed by the text."""
    encoded = text.encode("utf-8", "replace")
    digest = [byte - 127.5 for byte in sha256(encoded).digest()]
    return digest + [byte * _BYTE_WEIGHT for byte in encoded]


def _text(vector: Sequence[float]) -> str:
    try:
        encoded = bytes(int(one / _BYTE_WEIGHT) for one in vector[_HASH_BYTES:])
        text = encoded.decode()
    except ValueError:
        text = ""
    if list(vector) != _vector(text):
        raise ValueError(
            "The vector is that of another embedder: "
            "pass Memory(storage=storage, embedder=storage.embed)."
        )
    return text
