"""Which texts are embedded before the reply, and vectors for memories stored without them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from commonbrain.embeddings.interface import Embedder, Vectors, count_windows
from commonbrain.ingestion.preparation import PreparedDraft
from commonbrain.ingestion.result import ItemResult
from commonbrain.model import limits
from commonbrain.model.errors import BusyError, DeadlineError, InvalidInputError, UnavailableError
from commonbrain.model.kinds import CausalField, Detail, Kind, fields_of
from commonbrain.model.memory import Memory
from commonbrain.model.scope import Caller
from commonbrain.services import Capability, Services

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


_Input = tuple[str, Detail | None]
"""A text to embed, and the detail with further fields to embed."""


def vectors_for(memories: Sequence[Memory], embedder: Embedder) -> dict[int, Vectors]:
    """Embed memories in one batch; return their vectors by id.

    Raises:
        UnavailableError: the embedder is unavailable or rejects one of the texts.

    """
    made = embedded([(one.text, one.detail) for one in memories], embedder)
    return {one.id: given for one, given in zip(memories, made, strict=True)}


def embedded(inputs: Sequence[_Input], embedder: Embedder) -> list[Vectors]:
    """Embed texts and the fields of atoms, each distinct text once, in one batch.

    Raises:
        UnavailableError: the embedder is unavailable or rejects one of the texts.

    """
    fields = [fields_of(detail) for _, detail in inputs]
    texts = dict.fromkeys(
        segment
        for (text, _), parts in zip(inputs, fields, strict=True)
        for segment in (text, *parts.values())
    )
    made = dict(zip(texts, embedder.passages(list(texts)), strict=True)) if texts else {}

    def vectors(text: str, parts: Mapping[CausalField, str]) -> Vectors:
        # A field is a clause; if it exceeds a window, its beginning is enough.
        beginnings = {name: made[segment][0] for name, segment in parts.items()}
        return Vectors(windows=made[text], fields=beginnings)

    return [vectors(text, parts) for (text, _), parts in zip(inputs, fields, strict=True)]


def embed_drafts(
    prepared: Sequence[PreparedDraft],
    caller: Caller,
    *,
    services: Services,
    skipped: Container[int] = frozenset(),
) -> list[PreparedDraft]:
    """Embed all drafts but the skipped ones in one batch, with what was derived from them.

    A shared server leaves long texts and messages, which are compared with nothing, for later. All
    are left without vectors if the embedder is unavailable.

    Raises:
        BusyError: too many texts of the tenant wait to be embedded.
        DeadlineError: the caller no longer waits.

    """
    chosen = [one for place, one in enumerate(prepared) if place not in skipped]
    inputs: list[list[_Input]] = []
    for source in chosen:
        drafts = (source, *(part for part in source.derived if isinstance(part, PreparedDraft)))
        inputs.append([(draft.text, draft.admitted.detail) for draft in drafts])
        inputs[-1] += [(rationale, None) for rationale in source.rationales]
    try:
        later = [source.admitted.kind is Kind.MESSAGE for source in chosen]
        made = iter(_embed_awaited(inputs, caller, later=later, services=services))
    except (BusyError, DeadlineError):
        raise
    except UnavailableError:
        return list(prepared)
    return [
        one if place in skipped else _embedded(one, next(made), rest=made)
        for place, one in enumerate(prepared)
    ]


def awaits_embedding(prepared: PreparedDraft, outcome: ItemResult) -> bool:
    """Return whether a draft, or a part of it, may have been stored without vectors."""
    parts = (part for part in prepared.derived if isinstance(part, PreparedDraft))
    return outcome.embedding_pending or any(part.vectors is None for part in parts)


def _embedded(
    prepared: PreparedDraft, own: _EmbeddedText, *, rest: Iterator[_EmbeddedText]
) -> PreparedDraft:
    parts = tuple(
        replace(part, vectors=next(rest).vectors) if isinstance(part, PreparedDraft) else part
        for part in prepared.derived
    )
    # A reason that is too long to be embedded at once is compared with nothing.
    reasons = [(text, made) for text in prepared.rationales if (made := next(rest).vectors)]
    return replace(
        prepared,
        vectors=own.vectors,
        is_deferred=own.vectors is None,
        warnings=(*prepared.warnings, *own.warnings),
        derived=parts,
        rationales=tuple(text for text, _ in reasons),
        rationale_vectors=tuple(made.windows for _, made in reasons),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _EmbeddedText:
    """The vectors of a text; None if it is embedded later."""

    vectors: Vectors | None
    warnings: tuple[str, ...] = ()


def _embed_awaited(
    inputs: Sequence[Sequence[_Input]], caller: Caller, *, later: Sequence[bool], services: Services
) -> list[_EmbeddedText]:
    """Embed the texts of each draft; on a shared server only what the caller waits for.

    Raises:
        BusyError: too many texts of the tenant wait to be embedded.
        DeadlineError: the caller no longer waits.
        UnavailableError: the embedder is unavailable or rejects one of the texts.

    """
    defers = services.embed_later is not None
    if_above = limits.AWAITED_WINDOWS_MAX if defers else limits.EMBEDDED_WINDOWS_MAX
    count = partial(count_windows, embedder=services.embedder, if_above=if_above)
    counts = [[count(text) for text, _ in one] for one in inputs]
    texts = [*chain.from_iterable(inputs)]
    awaited = _find_awaited(counts, later) if defers else range(len(texts))
    made = embedded([texts[place] for place in awaited], services.embedder_for(caller))
    vectors = dict(zip(awaited, made, strict=True))
    return [
        _EmbeddedText(vectors=vectors.get(place), warnings=_window_warnings(number))
        for place, number in enumerate(chain.from_iterable(counts))
    ]


def _find_awaited(counts: Sequence[Sequence[int]], later: Sequence[bool]) -> list[int]:
    """Return the places of the short texts of the first drafts, as many as one call embeds.

    The first text of a draft is its own, which may be for later; the others are its parts.
    """
    awaited: list[int] = []
    place, left = 0, limits.CALL_WINDOWS_MAX
    for draft, first in zip(counts, later, strict=True):
        short = [at for at in range(first, len(draft)) if draft[at] <= limits.AWAITED_WINDOWS_MAX]
        cost = sum(draft[at] for at in short)
        if cost <= left:
            awaited += [place + at for at in short]
            left -= cost
        place += len(draft)
    return awaited


def _window_warnings(count: int) -> tuple[str, ...]:
    if count <= limits.EMBEDDED_WINDOWS_MAX:
        return ()
    return (
        f"The embedding model reads this text in {count} windows. The first "
        f"{limits.EMBEDDED_WINDOWS_MAX} are found by meaning, the rest by its words only; split "
        "the text to have all of it found by meaning.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedProgress:
    """The number of memories that got vectors, and of those that still lack them in this tenant."""

    count: int
    left: int


OnCommit = Callable[["Transaction", EmbedProgress], None]


class EmbedPending(Capability):
    """Embeds the pending memories of one tenant."""

    def __call__(
        self,
        *,
        batch: int = limits.EMBED_BATCH,
        one_by_one: bool = True,
        on_commit: OnCommit | None = None,
    ) -> EmbedProgress:
        """Embed a batch of pending memories, oldest first.

        Call it again while `count` and `left` are both positive. A text that the embedder rejects
        stays pending and does not keep the others from their vectors.

        Args:
            batch: at most this many, 1 to 100.
            one_by_one: try each separately if the batch fails; slower while the embedder is down.
            on_commit: called in the transaction that stores the vectors.

        Raises:
            InvalidInputError: the batch is out of range.
            UnavailableError: the embedder accepted none of them, or the store cannot be read or
                written; all of them stay pending.

        """
        if not 1 <= batch <= limits.ITEMS_PER_CALL_MAX:
            raise InvalidInputError(
                f"The batch is {batch}; 1 to {limits.ITEMS_PER_CALL_MAX} are allowed."
            )
        tenant = self.caller.tenant
        with self.services.store.snapshot(tenant) as tx:
            waiting = tx.memories.get(tx.missing_embeddings.oldest(limit=batch))
        made = self._embed(list(waiting.values()), one_by_one=one_by_one)
        with self.services.store.begin(tenant) as tx:
            count = sum(tx.index.embed(id_, vectors) for id_, vectors in made.items())
            done = EmbedProgress(count=count, left=tx.missing_embeddings.pending())
            if on_commit is not None:
                on_commit(tx, done)
        return done

    def _embed(self, waiting: Sequence[Memory], *, one_by_one: bool) -> dict[int, Vectors]:
        """Embed the first of the memories that the embedder accepts, a limited number of bytes."""
        embed = embed_if_free if one_by_one else vectors_for
        refusal: UnavailableError | None = None
        for group in _by_size(waiting):
            try:
                return embed(group, self.services.embedder_for(self.caller))
            except (BusyError, DeadlineError):
                raise
            except UnavailableError as error:
                refusal = error
        if refusal is not None:
            raise refusal
        return {}


def _by_size(memories: Sequence[Memory]) -> Iterator[list[Memory]]:
    """Yield the memories in groups of at most `EMBED_BATCH_BYTES`, or of one that is longer."""
    group: list[Memory] = []
    size = 0
    for one in memories:
        own = len(one.text.encode(errors="replace"))
        if group and size + own > limits.EMBED_BATCH_BYTES:
            yield group
            group, size = [], 0
        group.append(one)
        size += own
    if group:
        yield group


def embed_if_free(waiting: Sequence[Memory], embedder: Embedder) -> dict[int, Vectors]:
    """Embed all at once, or one by one if the embedder rejects the batch.

    Raises:
        BusyError: too many texts of the tenant wait to be embedded.
        DeadlineError: the caller no longer waits.
        UnavailableError: none of them was accepted.

    """
    try:
        return vectors_for(waiting, embedder)
    except (BusyError, DeadlineError):
        raise
    except UnavailableError:
        pass
    taken: dict[int, Vectors] = {}
    refusal: UnavailableError | None = None
    for one in waiting:
        try:
            taken |= vectors_for([one], embedder)
        except UnavailableError as error:
            refusal = error
            if isinstance(error, BusyError | DeadlineError):
                # It would stop the others too.
                break
    if refusal and not taken:
        raise refusal
    return taken
