"""JSON values under a path and a key, as agent frameworks store them, in memories of a brain.

The body of a memory is the text by which the value is found, its attachment the exact value. Its
tags are the path, each path above it and the key, so that a lookup reads an index. A new value
supersedes the old one; a deleted one is forgotten. Of several memories at one place, that of the
highest authority counts, then the newest; one that does not have the form of a value is no value.

Values belong to the project of the brain. People may correct them: where the text of a value is
one of its strings, the corrected text becomes that string.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import chain, islice
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import quote

from commonbrain.client import Brain
from commonbrain.history.selection import Phase
from commonbrain.ingestion.result import ItemResult, ItemStatus
from commonbrain.ingestion.validation import check_address
from commonbrain.model import ids as memory_ids
from commonbrain.model.attachments import attachment_text
from commonbrain.model.errors import (
    InvalidInputError,
    NotFoundError,
    RejectedError,
    UnavailableError,
)
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.limits import (
    FORGET_ALONE_MAX,
    IDS_PER_GET_MAX,
    ITEMS_PER_CALL_MAX,
    LIST_PAGE_MAX,
    NAME_CHARS_MAX,
    QUERY_CHARS_MAX,
    RECALL_ITEMS_MAX,
    RECALL_TOKENS_MAX,
    SOURCE_REF_CHARS_MAX,
    TAGS_MAX,
    TEXT_BYTES_MAX,
)
from commonbrain.model.memory import CURRENT_STATES, Draft, Memory, State
from commonbrain.model.scope import is_visible
from commonbrain.retrieval.get import MemoryView, View
from commonbrain.text.normalisation import normalise, without_injected_context

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

Path = tuple[str, ...]
Item = TypeVar("Item")

_ATTEMPTS: Final = 5
"""Writes of one value before giving up: each failure means that another writer was faster."""
_OVERTAKEN: Final = frozenset({"already_superseded", "not_current"})
"""Refusals of a replacement whose old value is not current any more."""
OWN_EVIDENCE: Final = "own_evidence"
"""Refusal of a text that is nothing but an answer of recall, which a value may well be."""
_EXTENDED_SHARE: Final = 0.1
"""The share of a time to live that passes before it starts again."""
_DIGEST_CHARS: Final = 40
"""Characters of a hash in the name of a long path: 160 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewValue:
    """A value to store; `options` is what its framework stores with it."""

    path: Path
    key: str
    value: Mapping[str, Any]
    text: str
    """The text by which it is found; an empty one makes it findable by its path and key."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    expires_at: datetime | None = None

    @property
    def place(self) -> tuple[Path, str]:
        """Path and key."""
        return self.path, self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredValue:
    """A current value."""

    id: str
    path: Path
    key: str
    value: dict[str, Any]
    options: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime
    revision: int

    @property
    def place(self) -> tuple[Path, str]:
        """Path and key."""
        return self.path, self.key


@dataclass(frozen=True, slots=True)
class KeyedValues:
    """The values that one framework stores in a brain; `name` separates those of several."""

    brain: Brain
    name: str
    _lock: Lock = field(default_factory=Lock)

    def get(self, path: Path, key: str, *, bump: bool = False) -> StoredValue | None:
        """Return the value with a key; None if there is none."""
        [stored] = self.get_several([(path, key)], bump=bump)
        return stored

    def get_several(
        self, places: Sequence[tuple[Path, str]], *, bump: bool = False
    ) -> list[StoredValue | None]:
        """Return the value at each path and key; None where there is none."""
        ids_by_tag = self._ids([self._key_tag(*place) for place in places])
        views = dict(
            self._views(dict.fromkeys(chain.from_iterable(ids_by_tag.values())), bump=bump)
        )
        return [
            self._first(
                place, [views[id_] for id_ in ids_by_tag[self._key_tag(*place)] if id_ in views]
            )
            for place in places
        ]

    def put(self, values: Sequence[NewValue]) -> None:
        """Store values; each replaces the one with its path and key.

        New values are stored in one transaction, each other one in its own.

        Raises:
            InvalidInputError: a value is not JSON, or a path is too deep.
            RejectedError: a value holds a secret, is too large, or the caller may not replace it.

        """
        with self._lock:
            known = self.get_several([value.place for value in values])
            new = [one for one, old in zip(values, known, strict=True) if old is None]
            for some in batches(new, ITEMS_PER_CALL_MAX):
                self._add(some)
            for one, old in zip(values, known, strict=True):
                if old is not None:
                    self._replace(one, old)

    def delete(self, path: Path, key: str) -> None:
        """Forget the value with a key, if there is one."""
        with self._lock:
            for _ in range(_ATTEMPTS):
                stored = self.get(path, key)
                if stored is None:
                    return
                forget(self.brain, [stored.id], reason=f"deleted by {self.name}")

    def below(self, path: Path) -> Iterator[StoredValue]:
        """Yield the values of a path and of those below it, last stored first."""
        yield from self._values(list_ids(self.brain, self._path_tag(path)), path)

    def search(self, query: str, path: Path) -> Iterator[tuple[StoredValue, float]]:
        """Yield the values below a path that match a query, best first, with their scores 0..1."""
        answer = self.brain.recall(
            query[:QUERY_CHARS_MAX],
            tags=[self._path_tag(path)],
            project=self.brain.caller.project,
            max_items=RECALL_ITEMS_MAX,
            max_tokens=RECALL_TOKENS_MAX,
            trust_min=0.0,
        )
        scores = {item.id: item.score for item in answer.items}
        for one in self._values(scores, path):
            yield one, scores.get(one.id, 0.0)

    def extend(self, value: StoredValue, ttl: timedelta) -> None:
        """Let the time to live of a value start again, unless it was replaced or has expired.

        Each extension is a row of history, so there is at most one in each tenth of the time.
        """
        with suppress(RejectedError, NotFoundError):
            view = self.brain.get(value.id, views=[View.POLICY], bump=False)
            old = view.policy.expires_at if view.policy else None
            new = self.now() + ttl
            if old is None or new - old >= ttl * _EXTENDED_SHARE:
                self.brain.revise.set_expiry(value.id, new)

    def now(self) -> datetime:
        """Return the time by the clock of the brain."""
        return self.brain.services.clock.now()

    def _add(self, values: Sequence[NewValue]) -> None:
        now = self.now()
        drafts = [self._draft(value, created_at=now) for value in values]
        outcomes = self.brain.remember(drafts).items
        for one, draft, outcome in zip(values, drafts, outcomes, strict=True):
            last = outcome
            if last.code == OWN_EVIDENCE:
                [last] = self.brain.remember([replace(draft, body=_address(one))]).items
            # Another writer may have stored the same value since it was looked for.
            stored = self.get(*one.place) if last.status is ItemStatus.EXISTS else None
            if stored is not None:
                self._replace(one, stored)
            else:
                check_stored(last)

    def _replace(self, value: NewValue, old: StoredValue) -> None:
        for _ in range(_ATTEMPTS):
            draft = self._draft(value, created_at=old.created_at, revision=old.revision + 1)
            try:
                outcome = self._supersede(old, draft)
                if outcome.code == OWN_EVIDENCE:
                    outcome = self._supersede(old, replace(draft, body=_address(value)))
            except RejectedError as error:
                if error.code not in _OVERTAKEN:
                    raise
                current = self.get(*value.place)
                if current is None:
                    self._add([value])
                    return
                old = current
            else:
                check_stored(outcome)
                return
        raise UnavailableError(f"Others replace {value.key[:40]!r} at the same time.")

    def _supersede(self, old: StoredValue, draft: Draft) -> ItemResult:
        expiry: dict[str, Any] = {"expires_at": draft.expires_at} if draft.expires_at else {}
        return self.brain.revise.supersede(
            old.id,
            draft.body,
            reason=f"replaced by {self.name}",
            # With columns of its own, it does not inherit the expiry of the old one.
            detail=MessageDetail(),
            extract_causes=False,
            attachment=draft.attachment or {},
            tags=draft.tags,
            **expiry,
        )

    def _draft(self, value: NewValue, *, created_at: datetime, revision: int = 0) -> Draft:
        check_address((*value.path, value.key), self.brain.services.secret_scanner)
        paths = [value.path[:depth] for depth in range(len(value.path) + 1)]
        tags = [*map(self._path_tag, paths), self._key_tag(value.path, value.key)]
        if len(tags) > TAGS_MAX:
            raise InvalidInputError(
                f"The path has {len(value.path)} parts; {TAGS_MAX - 2} are allowed."
            )
        attachment = {
            "store": self.name,
            "path": list(value.path),
            "key": value.key,
            "value": value.value,
            "options": value.options,
            "created_at": created_at.isoformat(),
            "revision": revision,
            "text_at": place_of(value.text, value.value),
        }
        return Draft(
            # Messages accept any text, do not decay and are compared with nothing.
            kind=Kind.MESSAGE,
            body=shortened(value.text) or _address(value),
            project=self.brain.caller.project,
            tags=tuple(tags),
            source_ref=short_name(
                self._place(value.path, value.key), of=self.name, most=SOURCE_REF_CHARS_MAX
            ),
            expires_at=value.expires_at,
            extract_causes=False,
            attachment=attachment,
        )

    def _first(self, place: tuple[Path, str], views: Sequence[MemoryView]) -> StoredValue | None:
        """Return the value at a place, of views that are the newest first; others share its tag."""
        ranked = sorted(views, key=lambda view: view.authority.rank)
        stored = (_stored(view, name=self.name) for view in ranked)
        return next((one for one in stored if one is not None and one.place == place), None)

    def _values(self, ids: Iterable[str], path: Path) -> Iterator[StoredValue]:
        """Yield the values of memories in order that count at their places, below a path."""
        seen = set[str]()
        for some in batches(ids, IDS_PER_GET_MAX):
            stored = [_stored(view, name=self.name) for _, view in self._views(some)]
            below = [one for one in stored if one is not None and one.path[: len(path)] == path]
            others = self._ids([self._key_tag(*one.place) for one in below])
            for one in below:
                # Nearly always, a value is alone at its place.
                is_alone = {*others[self._key_tag(*one.place)]} <= {one.id}
                first = one if is_alone else self.get(*one.place) or one
                if first.id == one.id and one.id not in seen:
                    seen.add(one.id)
                    yield one

    def _ids(self, tags: Sequence[str]) -> dict[str, list[str]]:
        """Return the memories of the project with each of some tags, newest first: one lookup."""
        caller, now = self.brain.caller, self.now()

        def read(tx: Transaction) -> list[Memory]:
            known = tx.memories.get(tx.memories.with_tags(tags)).values()
            return [one for one in known if is_visible(caller, one) and not one.is_over(now)]

        by_tag: dict[str, list[str]] = {tag: [] for tag in tags}
        for one in reversed(self.brain.services.store.read(caller.tenant, read)):
            for tag in by_tag.keys() & one.tags if one.project == caller.project else ():
                by_tag[tag].append(memory_ids.show(memory_ids.MEMORY, one.id))
        return by_tag

    def _views(self, ids: Iterable[str], *, bump: bool = False) -> Iterator[tuple[str, MemoryView]]:
        """Yield the ids in order, each with its current memory if the project has one."""
        for some in batches(ids, IDS_PER_GET_MAX):
            for view in self.brain.get_several(some, bump=bump):
                newest = view
                if view.state is State.SUPERSEDED:
                    newest = self.brain.get(view.current_id, bump=False)
                if newest.state in CURRENT_STATES and newest.project == self.brain.caller.project:
                    yield view.id, newest

    def _path_tag(self, path: Path) -> str:
        name = f"{self.name}:{'/'.join(map(quoted, path))}" if path else self.name
        return short_name(name, of=self.name)

    def _key_tag(self, path: Path, key: str) -> str:
        return short_name(self._place(path, key), of=self.name)

    def _place(self, path: Path, key: str) -> str:
        return f"{self.name}:{'/'.join(map(quoted, path))}#{quoted(key)}"


def short_name(name: str, *, of: str, most: int = NAME_CHARS_MAX) -> str:
    """Return a name, or a hash of it after the name of its store if it is too long."""
    if len(name) <= most:
        return name
    return f"{of}:{sha256(name.encode()).hexdigest()[:_DIGEST_CHARS]}"


def strings_of(value: object, place: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield the texts in a JSON value, and its numbers as texts, each with its place."""
    match value:
        case Mapping():
            for name, one in cast("Mapping[str, object]", value).items():
                yield from strings_of(one, (*place, str(name)))
        case list() | tuple():
            for number, one in enumerate(cast("Sequence[object]", value)):
                yield from strings_of(one, (*place, str(number)))
        case None | True | False:
            pass
        case _:
            yield place, str(value)


def readable(value: Mapping[str, Any]) -> str:
    """Return the texts of a value, one a line, each after its name if there are several."""
    texts = [(place, text) for place, text in strings_of(value) if text]
    if len(texts) == 1:
        return texts[0][1]
    return "\n".join(f"{'.'.join(place)}: {text}" for place, text in texts)


def attached(view: MemoryView, *, store: str) -> Mapping[str, Any]:
    """Return the attachment of a memory, if it has the form that a store of this name writes."""
    match cast("Mapping[str, Any]", view.attachment or {}):
        case {"store": name, "path": list(), "value": dict()} as stored if name == store:
            is_path = all(isinstance(part, str) for part in cast("list[object]", stored["path"]))
            return stored if is_path else {}
        case _:
            return {}


def _stored(view: MemoryView, *, name: str) -> StoredValue | None:
    """Return the value of a memory; None if it is not of the store with this name."""
    match stored := attached(view, store=name):
        case {"key": str(key), "options": dict(), "created_at": str(created_at)}:
            with suppress(ValueError):
                return StoredValue(
                    id=view.id,
                    path=tuple(stored["path"]),
                    key=key,
                    value=attached_value(view),
                    options=stored["options"],
                    created_at=datetime.fromisoformat(created_at),
                    updated_at=view.recorded_at,
                    revision=view.superseded_count,
                )
        case _:
            pass
    return None


def place_of(text: str, value: Mapping[str, Any]) -> Path | None:
    """Return the place of the only string in a value that is its text.

    There is none if a memory holds less than the text: a correction would delete the rest.
    """
    if not text or findable(text) != normalise(text):
        return None
    # As JSON, all names are texts.
    written = json.loads(attachment_text(value))
    places = [place for place, one in strings_of(written) if one == text]
    is_string = len(places) == 1 and isinstance(_at(written, places[0]), str)
    return places[0] if is_string else None


def _at(value: Any, place: Sequence[str]) -> Any:  # noqa: ANN401 any JSON
    member: Any = value
    for name in place:
        is_list = isinstance(member, list | tuple)
        member = member[int(name) if is_list else name]
    return member


def attached_value(view: MemoryView) -> dict[str, Any]:
    """Return the value in the attachment of a memory, with the text that a person corrected."""
    stored = cast("Mapping[str, Any]", view.attachment)
    value = deepcopy(stored["value"])
    # A revision by a person inherits the attachment, and the number of its revision.
    is_corrected = view.superseded_count != stored.get("revision", 0)
    if is_corrected and stored.get("text_at"):
        with suppress(LookupError, TypeError, ValueError):
            *above, last = stored["text_at"]
            parent = _at(value, above)
            parent[int(last) if isinstance(parent, list) else last] = view.body or ""
    return value


def list_ids(brain: Brain, tag: str) -> Iterator[str]:
    """Yield the ids of the memories of the brain's project that have a tag, last stored first."""
    cursor = None
    while True:
        project = brain.caller.project or ""
        page = brain.list(tags=[tag], project=project, limit=LIST_PAGE_MAX, cursor=cursor)
        yield from (memory.id for memory in page.memories)
        cursor = page.next
        if cursor is None:
            return


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield items in lists of at most a size."""
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some


def quoted(part: str) -> str:
    """Return a part of a name without space and separators."""
    return quote(part, safe="", errors="surrogatepass")


def findable(text: str) -> str:
    """Return what a memory can hold of a text; empty if it only repeats what a recall answered."""
    return shortened(normalise(without_injected_context(normalise(text))))


def shortened(text: str) -> str:
    """Return as much of a text as a memory takes; the whole value is in the attachment."""
    return text.encode("utf-8", "replace")[:TEXT_BYTES_MAX].decode("utf-8", "ignore").strip()


def _address(value: NewValue) -> str:
    return " / ".join((*value.path, value.key))


def check_stored(outcome: ItemResult) -> None:
    """Raise the refusal of a value that was not stored.

    Raises:
        RejectedError: it was refused, or only proposed because its writer is not trusted enough.

    """
    if outcome.status is not ItemStatus.STORED:
        raise RejectedError(
            outcome.reason or f"The value is {outcome.status}.",
            code=outcome.code or str(outcome.status),
            hint=outcome.hint or "",
        )


def forget(brain: Brain, ids: Sequence[str], *, reason: str) -> None:
    """Forget up to 100 memories.

    Raises:
        RejectedError: the caller may not forget one of them.

    """
    # A model forgets no more at once without a person.
    for start in range(0, len(ids), FORGET_ALONE_MAX):
        _forget_some(brain, ids[start : start + FORGET_ALONE_MAX], reason=reason)


def _forget_some(brain: Brain, ids: Sequence[str], *, reason: str) -> None:
    result = brain.forget(ids, reason=reason)
    if result.status is Phase.PREVIEW:
        result = brain.forget(ids, reason=reason, confirm=result.count)
    refused = [*result.skipped, *(result.items if result.status is Phase.PROPOSED else ())]
    if refused:
        raise RejectedError(
            f"{refused[0].id} cannot be deleted: {refused[0].why or result.hint or result.status}",
            code="insufficient_trust",
        )
