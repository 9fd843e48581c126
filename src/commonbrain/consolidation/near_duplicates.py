"""Near duplicates: maximal groups of memories of which each is similar to every other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from commonbrain.embeddings.interface import Matrix
from commonbrain.ingestion.embedding import vectors_for
from commonbrain.model import ids, limits
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import KINDS, Kind
from commonbrain.model.links import DISTINCT_LINKS
from commonbrain.model.memory import CURRENT_STATES, Memory
from commonbrain.model.query import Filter
from commonbrain.model.scope import is_visible
from commonbrain.services import Services
from commonbrain.storage.interface import QueryScope
from commonbrain.storage.job_queue import JobContext

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Clique:
    """A group of near duplicates; `weakest` is the lowest cosine of two members."""

    ids: tuple[int, ...]
    weakest: float


def cliques(near: Mapping[tuple[int, int], float]) -> list[Clique]:
    """Find the maximal cliques of two or more, most similar first, at most `CLIQUES_MAX`.

    `near` holds pairs, the smaller id first, with their similarity. The search is Bron-Kerbosch
    with pivoting (1973), which is exponential in the worst case: after a number of steps it returns
    what it has found.
    """
    search = _Search(neighbours=_neighbours(near))
    search.grow(frozenset(), open_=set(search.neighbours), closed=set())
    groups = [Clique(ids=tuple(sorted(one)), weakest=_weakest(one, near)) for one in search.cliques]
    groups.sort(key=lambda one: (-one.weakest, one.ids))
    return groups[: limits.CLIQUES_MAX]


@dataclass(slots=True, kw_only=True)
class _Search:
    neighbours: Mapping[int, set[int]]
    cliques: list[frozenset[int]] = field(default_factory=list[frozenset[int]])
    steps: int = 0

    def grow(self, taken: frozenset[int], *, open_: set[int], closed: set[int]) -> None:
        """Find cliques with everything taken, some of what is open, and nothing closed."""
        self.steps += 1
        if self.steps > limits.CLIQUE_STEPS_MAX:
            return
        if not open_ and not closed:
            self.cliques += [taken] if len(taken) > 1 else []
            return
        # Neighbours of the pivot are found together with it.
        pivot = max(open_ | closed, key=lambda one: (len(self.neighbours[one] & open_), one))
        for one in sorted(open_ - self.neighbours[pivot]):
            neighbours = self.neighbours[one]
            self.grow(taken | {one}, open_=open_ & neighbours, closed=closed & neighbours)
            open_.discard(one)
            closed.add(one)


def _neighbours(near: Iterable[tuple[int, int]]) -> Mapping[int, set[int]]:
    neighbours: defaultdict[int, set[int]] = defaultdict(set)
    for one, other in near:
        neighbours[one].add(other)
        neighbours[other].add(one)
    return dict(neighbours)


def _weakest(ids: Iterable[int], near: Mapping[tuple[int, int], float]) -> float:
    own = sorted(ids)
    pairs = ((one, other) for at, one in enumerate(own) for other in own[at + 1 :])
    return min(near[pair] for pair in pairs)


_NEIGHBOURS: Final = 20
"""Neighbours of each memory; larger groups are found through their members."""
_REVISED_MIN: Final = 2
"""A memory that was corrected this often is rather disputed than duplicated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """The memories to read, and the caller."""

    services: Services
    task: JobContext
    project: str | None

    def query_scope(self, *kinds: Kind, project: str | None) -> QueryScope:
        """Limit a search to what the caller may see."""
        criteria = Filter(kinds=kinds, project=project, trust_min=0.0)
        return QueryScope(caller=self.task.caller, filter=criteria, now=self.services.clock.now())

    def is_in_scope(self, one: Memory) -> bool:
        """Return whether a memory belongs in the report."""
        return (
            KINDS[one.kind].merges_near_duplicates
            and one.state in CURRENT_STATES
            and not one.is_over(self.services.clock.now())
            and self.project in {None, one.project}
            and is_visible(self.task.caller, one)
        )


def consolidate(task: JobContext) -> None:
    """Compare rules and facts with their neighbours, page by page; changes nothing.

    Raises:
        InvalidInputError: a project has more rules than one could review.
        UnavailableError: a memory has no vector, and the embedder is unavailable.

    """
    project = cast("str | None", task.job.given.get("project"))
    request = _Scope(services=task.services, task=task, project=project)
    with task.services.store.snapshot(task.caller.tenant) as tx:
        _check_rules(tx, request)
        total = sum(tx.memories.counts().values())
    while task.is_live:
        _read_page(request, task, total=total)


def _check_rules(tx: Transaction, request: _Scope) -> None:
    query_scope = request.query_scope(Kind.RULE, project=request.project)
    hits = tx.memories.newest(query_scope, limit=limits.CONSOLIDATED_RULES_MAX + 1)
    if len(hits) > limits.CONSOLIDATED_RULES_MAX:
        raise InvalidInputError(
            f"There are more than {limits.CONSOLIDATED_RULES_MAX} rules, too many for one report.",
            hint="Give a project, or forget rules that are no longer used.",
        )


def _read_page(request: _Scope, task: JobContext, *, total: int) -> None:
    reached: dict[str, Any] = {"after": 0, "read": 0, "near": [], "revised": [], **task.job.reached}
    tenant = task.caller.tenant
    with request.services.store.snapshot(tenant) as tx:
        page = tx.memories.page(after=reached["after"], limit=limits.EMBED_BATCH)
        in_scope = [one for one in tx.memories.get(page).values() if request.is_in_scope(one)]
        stored_vectors = tx.index.first_windows([one.id for one in in_scope])
    # Embeds only memories stored without vectors; the job `embed` stores vectors, not this one.
    made = vectors_for(
        [one for one in in_scope if one.id not in stored_vectors], request.services.embedder
    )
    queries = stored_vectors | {id_: vectors.windows[0] for id_, vectors in made.items()}
    at_least = request.services.space_for(task.caller).similar_threshold
    with request.services.store.snapshot(tenant) as tx:
        near = _near(tx, request, memories=in_scope, queries=queries, at_least=at_least)
    known = {(one, other): cosine for one, other, cosine in reached["near"]} | near
    often = [
        *reached["revised"],
        *(
            [one.id, one.superseded_count]
            for one in in_scope
            if one.superseded_count >= _REVISED_MIN
        ),
    ]
    often.sort(key=lambda revised: -revised[1])
    reached |= {
        "read": reached["read"] + len(in_scope),
        "near": [[*pair, cosine] for pair, cosine in list(known.items())[: limits.NEAR_PAIRS_MAX]],
        "revised": often[: limits.CONSOLIDATED_SHOWN_MAX],
    }
    with task.step() as tx:
        if len(page) < limits.EMBED_BATCH:
            task.finish(tx, _report(reached))
        else:
            reached["after"] = page[-1]
            done = reached.get("paged", 0) + len(page)
            reached["paged"] = done
            task.save_progress(tx, done / max(total, done, 1), reached=reached)


def _near(
    tx: Transaction,
    request: _Scope,
    *,
    memories: Sequence[Memory],
    queries: Mapping[int, Matrix],
    at_least: float,
) -> dict[tuple[int, int], float]:
    """Find similar pairs of a kind, except those declared different."""
    pairs: dict[tuple[int, int], float] = {}
    for one in memories:
        query_scope = request.query_scope(one.kind, project=request.project or one.project)
        for hit in tx.index.nearest(
            queries[one.id], query_scope, limit=_NEIGHBOURS, at_least=at_least
        ):
            if hit.id != one.id and hit.score >= at_least:
                pairs[min(one.id, hit.id), max(one.id, hit.id)] = round(hit.score, 4)
    ends = sorted({end for pair in pairs for end in pair})
    apart = {
        (min(link.from_id, link.to_id), max(link.from_id, link.to_id))
        for link in tx.links.touching(ends, types=DISTINCT_LINKS)
    }
    return {pair: cosine for pair, cosine in pairs.items() if pair not in apart}


def _report(reached: Mapping[str, Any]) -> dict[str, object]:
    groups = cliques({(one, other): cosine for one, other, cosine in reached["near"]})
    return {
        "read": reached["read"],
        "near_pairs": len(reached["near"]),
        "cliques": [_shown(one) for one in groups[: limits.CONSOLIDATED_SHOWN_MAX]],
        "revised": [
            {"id": ids.show(ids.MEMORY, id_), "revisions": count}
            for id_, count in reached["revised"]
        ],
    }


def _shown(one: Clique) -> dict[str, object]:
    """Describe a clique, with the calls that would merge it."""
    newest, *rest = (ids.show(ids.MEMORY, id_) for id_ in sorted(one.ids, reverse=True))
    return {
        "ids": [newest, *rest],
        "weakest": one.weakest,
        "settle": [
            f"revise supersede {newest} TEXT --reason WHY",
            f"forget {' '.join(rest)} --reason WHY",
        ],
    }
