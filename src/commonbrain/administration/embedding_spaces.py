"""Administer the embedding spaces of a store."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from statistics import fmean, median
from typing import Final

from commonbrain.embeddings.interface import Embedder, SpaceState
from commonbrain.ingestion.embedding import embed_if_free
from commonbrain.model import ids, limits
from commonbrain.model.errors import InvalidInputError, NotFoundError, RejectedError
from commonbrain.model.query import FeedbackMark, RecallLogEntry
from commonbrain.model.recall_result import ResultStatus
from commonbrain.model.scope import LOCAL_TENANT, Caller, Role
from commonbrain.observability.interface import SILENT
from commonbrain.retrieval.recall import Recall
from commonbrain.retrieval.write_behind import RecallLogPolicy, WriteBehindQueue
from commonbrain.security.guard import unshown
from commonbrain.services import Capability, Services
from commonbrain.storage.interface import EntryFilter, Progress, ignore_progress

TOP: Final = 10
"""Items compared of each answer; few agents read further."""
_RESAMPLES: Final = 1000
"""Enough for the ends of an interval to vary by less than 0.01."""
_TAIL: Final = 0.025
"""The probability outside either end of a 95% interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceAnswer:
    """The answer of one space to one query."""

    ids: tuple[int, ...]
    """Best first."""
    is_answered: bool
    """Whether the verdict was `found`."""
    took_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One query in both spaces, and the memories that helped the agent."""

    one: SpaceAnswer
    other: SpaceAnswer
    helped: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceFigures:
    """The figures of one space."""

    space: str
    mrr: float | None
    """Mean reciprocal rank of the first helpful memory; None without feedback."""
    unanswered: float
    """The share of queries without an answer."""
    median_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingComparison:
    """How another space would answer in place of the serving one."""

    questions: int
    marked: int
    """Queries with feedback."""
    serving: SpaceFigures
    other: SpaceFigures
    overlap: float
    """The mean share of the first ten that both return."""
    gain: tuple[float, float] | None
    """Bounds of the other space's gain in MRR at 95% confidence; None without feedback."""

    @property
    def better(self) -> str | None:
        """The space that ranks helpful memories higher; None if that is uncertain."""
        if self.gain is None or self.gain[0] <= 0 <= self.gain[1]:
            return None
        return self.other.space if self.gain[0] > 0 else self.serving.space


def overlap(one: Sequence[int], other: Sequence[int]) -> float:
    """Return the share of the first ten that two answers have in common; 1 if both are empty."""
    first, second = set(one[:TOP]), set(other[:TOP])
    longer = max(len(first), len(second))
    return len(first & second) / longer if longer else 1.0


def reciprocal_rank(ids: Sequence[int], helped: Collection[int]) -> float:
    """Return 1 / rank of the first helpful memory among the first ten; 0 if there is none."""
    ranks = (rank for rank, id_ in enumerate(ids[:TOP], 1) if id_ in helped)
    return 1 / next(ranks, float("inf"))


def compare(
    queries: Sequence[Compared], *, names: tuple[str, str], draw: Callable[[int], int]
) -> ServingComparison:
    """Summarize one or more queries to the serving space and another.

    Args:
        queries: the answers of both.
        names: the two spaces.
        draw: returns a uniform random number from 0 to one less than its argument.

    """
    marked = [one for one in queries if one.helped]
    ranks = [
        [reciprocal_rank(answer.ids, one.helped) for one, answer in zip(marked, own, strict=True)]
        for own in ([one.one for one in marked], [one.other for one in marked])
    ]
    gains = [after - before for before, after in zip(*ranks, strict=True)]
    return ServingComparison(
        questions=len(queries),
        marked=len(marked),
        serving=_figures(names[0], [one.one for one in queries], ranks=ranks[0]),
        other=_figures(names[1], [one.other for one in queries], ranks=ranks[1]),
        overlap=fmean(overlap(one.one.ids, one.other.ids) for one in queries),
        gain=interval(gains, draw=draw) if gains else None,
    )


def interval(values: Sequence[float], *, draw: Callable[[int], int]) -> tuple[float, float]:
    """Return the 95% bootstrap percentile interval of a mean (Efron 1979)."""
    count = len(values)
    means = sorted(fmean(values[draw(count)] for _ in values) for _ in range(_RESAMPLES))
    beyond = int(_RESAMPLES * _TAIL)
    return means[beyond], means[-1 - beyond]


def _figures(name: str, answers: Sequence[SpaceAnswer], *, ranks: Sequence[float]) -> SpaceFigures:
    return SpaceFigures(
        space=name,
        mrr=fmean(ranks) if ranks else None,
        unanswered=fmean(not one.is_answered for one in answers),
        median_ms=median(one.took_ms for one in answers),
    )


_HELPED: Final = frozenset({FeedbackMark.USED, FeedbackMark.USEFUL})
LOOKBACK: Final = timedelta(days=30)
"""Older queries say less about future ones."""
DRAWN_BITS: Final = 32
"""Enough bits that the remainder of a division by a few hundred is uniform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastQuery:
    """A past query, and the memories that helped."""

    query: str
    agent: str
    helped: frozenset[int]


def compare_spaces(
    services: Services, other: Services, *, caller: Caller, on_progress: Progress
) -> ServingComparison:
    """Ask the latest logged queries in both embedding spaces.

    Raises:
        NotFoundError: the recall log has no query.
        UnavailableError: an embedder or the store does not answer.

    """
    questions = past_questions(services, caller)
    if not questions:
        raise NotFoundError(
            "The recall log has no query to repeat.",
            hint="Use the store for a while with COMMONBRAIN_TRACE_SAMPLE_RATE above 0.",
        )
    done: list[Compared] = []
    for one in questions:
        as_asked = replace(caller, agent=one.agent)
        answers = [_answer(each, as_asked, query=one.query) for each in (services, other)]
        done.append(Compared(one=answers[0], other=answers[1], helped=one.helped))
        on_progress(len(done) / len(questions))
    return compare(
        done,
        names=(services.store.space.name, other.store.space.name),
        draw=lambda count: services.random_source.bits(DRAWN_BITS) % count,
    )


def past_questions(services: Services, caller: Caller) -> list[PastQuery]:
    """Return the latest queries of a tenant, each once, preferring those with feedback."""
    latest: dict[str, PastQuery] = {}
    for entry in _entries(services, caller):
        # What helped once helps everyone with the same query.
        known = latest.pop(entry.query, None)
        helped = _helped(entry).union(known.helped if known else ())
        latest[entry.query] = PastQuery(query=entry.query, agent=entry.agent, helped=helped)
    # A stable sort puts queries with feedback last, each group in order of age.
    by_worth = sorted(latest.values(), key=lambda one: bool(one.helped))
    return by_worth[-limits.COMPARED_MAX :]


def _entries(services: Services, caller: Caller) -> Iterator[RecallLogEntry]:
    """Read the recall log of the last weeks page by page."""
    criteria = EntryFilter(since=services.clock.now() - LOOKBACK)
    after = 0
    for _ in range(limits.COMPARED_PAGES_MAX):
        with services.store.snapshot(caller.tenant) as tx:
            page = tx.recall_log.entries(criteria, after=after, limit=limits.COMPARED_PAGE)
        yield from (one for one in page if one.query)
        if len(page) < limits.COMPARED_PAGE:
            return
        after = page[-1].id


def _helped(entry: RecallLogEntry) -> frozenset[int]:
    return frozenset(
        id_
        for id_, marks in entry.marks.items()
        if marks & _HELPED and FeedbackMark.WRONG not in marks
    )


def _answer(services: Services, caller: Caller, *, query: str) -> SpaceAnswer:
    """Run a query without leaving a trace."""
    no_log = RecallLogPolicy(share=0.0)
    journal = WriteBehindQueue(
        services.store, services.secret_scanner, clock=services.clock, ledger=no_log
    )
    silent_services = replace(services, journal=journal, telemetry=SILENT)
    began_ms = services.clock.elapsed_ms()
    with unshown():
        result = Recall(silent_services, caller)(
            query, max_items=TOP, max_tokens=limits.RECALL_TOKENS_MAX, bump=False
        )
    return SpaceAnswer(
        ids=tuple(ids.parse(ids.MEMORY, item.id) for item in result.items),
        is_answered=result.verdict is ResultStatus.FOUND,
        took_ms=services.clock.elapsed_ms() - began_ms,
    )


def services_in_space(services: Services, name: str | None) -> Services:
    """Return the services with another embedder, by default the next one in the settings.

    Raises:
        InvalidInputError: no embedder is named, it is unknown, or it does not match the space in
            the store.
        UnavailableError: the store stayed locked, is full or read-only.

    """
    embedder = find_embedder(services, name)
    return replace(services, store=services.store.in_space(embedder.space), embedder=embedder)


def find_embedder(services: Services, name: str | None) -> Embedder:
    """Create another embedder, by default the next one in the settings.

    Raises:
        InvalidInputError: no embedder is named, or it is unknown.

    """
    space_name = name or services.next_space
    if space_name is None or services.embedders is None:
        raise InvalidInputError(
            "No target embedder is set.",
            hint="Name one, as in `brain embeddings build ollama/nomic-embed-text/768`, or set "
            "COMMONBRAIN_EMBEDDER_NEXT.",
        )
    return services.embedders(space_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildCursor:
    """Position in a tenant's memories."""

    tenant: str
    after: int = 0
    passes: int = 0


_BEGIN: Final = BuildCursor(tenant="")


def fill_space(
    services: Services, *, since: BuildCursor = _BEGIN
) -> Iterator[tuple[int, BuildCursor]]:
    """Embed the memories of all tenants that have no vectors in the services' space, in batches.

    Yields the number of memories of each batch, and where to continue after an interruption.

    Raises:
        UnavailableError: the embedder accepts nothing, or the store cannot be read or written.

    """
    for tenant in services.store.tenants():
        if tenant < since.tenant:
            continue
        start = BuildCursor(tenant=tenant)
        place: BuildCursor | None = since if tenant == since.tenant else start
        while place is not None:
            count, place = _fill_batch(services, place)
            yield count, place or start


def _fill_batch(services: Services, cursor: BuildCursor) -> tuple[int, BuildCursor | None]:
    """Embed the next memories of a tenant; return their number, and where to continue.

    Memories stored meanwhile come last. Restored ones, and those that the embedder rejected, are
    handled by another pass.
    """
    with services.store.snapshot(cursor.tenant) as tx:
        missing = tx.missing_embeddings.oldest(limit=limits.EMBED_BATCH, after=cursor.after)
        waiting = tx.memories.get(missing)
    if not waiting:
        is_over = cursor.after == 0 or cursor.passes + 1 >= limits.SPACE_PASSES_MAX
        return 0, None if is_over else replace(cursor, after=0, passes=cursor.passes + 1)
    made = embed_if_free([waiting[id_] for id_ in missing], services.embedder)
    with services.store.begin(cursor.tenant) as tx:
        count = sum(tx.index.embed(id_, vectors) for id_, vectors in made.items())
    return count, replace(cursor, after=missing[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceView:
    """An embedding space, and how complete it is."""

    name: str
    dimensions: int
    state: SpaceState
    missing: int
    """Memories of all tenants without vectors in it."""
    is_indexed: bool
    """Whether it has a search index; without one every vector is compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResult:
    """The result of building a space."""

    space: str
    embedded: int
    missing: int
    """Memories that the embedder rejected or that were written at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchResult:
    """The previous and the new serving space."""

    before: str
    after: str
    missing: int
    """Memories without vectors in it; a switch requires 0."""
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropResult:
    """A dropped space, and the number of deleted vectors."""

    space: str | None
    vectors: int


class EmbeddingSpaces(Capability):
    """The embedding spaces of the store, administered by an admin of its first tenant."""

    def __call__(self) -> tuple[SpaceView, ...]:
        """List the spaces, oldest first.

        Raises:
            RejectedError: the caller is not an admin of the first tenant.
            UnavailableError: the store cannot be read.

        """
        self._check_right()
        spaces = self.services.store.spaces
        return tuple(
            SpaceView(
                name=one.name,
                dimensions=one.dimensions,
                state=one.state,
                missing=sum(spaces.missing_vectors(one.id).values()),
                is_indexed=spaces.is_indexed(one.id),
            )
            for one in spaces.listed()
        )

    def build(
        self, name: str | None = None, *, on_progress: Progress = ignore_progress
    ) -> BuildResult:
        """Compute vectors of all memories with another embedder, in addition to the existing ones.

        Others read and write meanwhile, and the serving space answers queries. After an
        interruption, run it again to continue.

        Args:
            name: the embedder by its space, such as `ollama/nomic-embed-text/768`, or `minilm`; by
                default the one in the settings.
            on_progress: called with the progress, 0..1.

        Raises:
            InvalidInputError: the embedder is unknown, or none is named.
            RejectedError: the caller is not an admin of the first tenant.
            UnavailableError: the embedder accepts nothing, or the store cannot be read or written.

        """
        self._check_right()
        other = services_in_space(self.services, name)
        space = other.store.spaces.add(other.store.space)
        total = sum(other.store.spaces.missing_vectors(space.id).values())
        made = 0
        for count, _ in fill_space(other):
            made += count
            on_progress(min(made / max(total, 1), 1.0))
        left = sum(other.store.spaces.missing_vectors(space.id).values())
        return BuildResult(space=space.name, embedded=made, missing=left)

    def compare(
        self, name: str | None = None, *, on_progress: Progress = ignore_progress
    ) -> ServingComparison:
        """Repeat past queries in the serving space and in another; changes nothing.

        The serving space is favoured, because helpful memories were found with it.

        Raises:
            InvalidInputError: the embedder is unknown, or none is named.
            NotFoundError: there is no past query to repeat.
            RejectedError: the caller is not an admin of the first tenant.
            UnavailableError: an embedder or the store does not answer.

        """
        self._check_right()
        other = services_in_space(self.services, name)
        return compare_spaces(self.services, other, caller=self.caller, on_progress=on_progress)

    def switch(self, name: str, *, dry_run: bool = False) -> SwitchResult:
        """Make another space serve; every process follows at its next call.

        Raises:
            NotFoundError: there is no such space.
            RejectedError: `space_incomplete`, memories have no vectors in it; or the caller may
                not.
            UnavailableError: the store stayed locked, is full or read-only; nothing was changed.

        """
        shown = {one.name: one for one in self()}
        [serving] = (one.name for one in shown.values() if one.state is SpaceState.CURRENT)
        if dry_run and name in shown:
            missing = shown[name].missing
            return SwitchResult(before=serving, after=name, missing=missing, is_dry_run=True)
        before = self.services.store.spaces.switch(name)
        return SwitchResult(before=before.name, after=name, missing=0)

    def drop(
        self,
        name: str | None = None,
        *,
        compact: bool = False,
        on_progress: Progress = ignore_progress,
    ) -> DropResult:
        """Delete the vectors of a space that does not serve; this cannot be undone.

        Args:
            name: the space; None continues interrupted deletions.
            compact: also return disk space to the system, which blocks others.
            on_progress: called with the progress, 0..1.

        Raises:
            NotFoundError: there is no such space.
            RejectedError: `space_in_use`, it serves; or the caller may not.
            UnavailableError: the store stayed locked, is full or read-only; continue later.

        """
        self._check_right()
        spaces, count = self.services.store.spaces, 0
        if name is not None:
            spaces.drop(name)
        total = spaces.dropped()
        while deleted := spaces.sweep(limit=limits.SPACE_DELETED_AT_ONCE):
            count += deleted
            on_progress(min(count / max(total, 1), 1.0))
        if compact:
            self.services.store.compact()
        return DropResult(space=name, vectors=count)

    def _check_right(self) -> None:
        if self.caller.tenant != LOCAL_TENANT or not self.caller.role.covers(Role.ADMIN):
            raise RejectedError(
                "All tenants of this store share its spaces.",
                code="scope_denied",
                hint="Ask the server's operator.",
            )
