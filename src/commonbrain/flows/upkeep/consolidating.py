"""Consolidate: a report on rules and facts that say nearly the same or are corrected too often.

It changes nothing. What it gives holds ids alone, for a report outlives what it is about: nothing
that is erased may be left in it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from commonbrain.domain import ids
from commonbrain.domain.cliques import Clique, cliques
from commonbrain.domain.errors import Invalid
from commonbrain.domain.kinds import Kind
from commonbrain.domain.limits import (
    CONSOLIDATED_RULES_MAX,
    CONSOLIDATED_SHOWN_MAX,
    EMBED_BATCH,
    NEAR_PAIRS_MAX,
)
from commonbrain.domain.links import LinkType
from commonbrain.domain.memory import CURRENT_STATES, Memory
from commonbrain.domain.query import Filter
from commonbrain.domain.scope import is_visible
from commonbrain.flows.house import House
from commonbrain.flows.upkeep.task import Task
from commonbrain.flows.vectors import vectors_for
from commonbrain.ports.models import Matrix
from commonbrain.ports.store import Look, Transaction

_KINDS: Final = (Kind.RULE, Kind.FACT)
_NEIGHBOURS: Final = 20
"""A group of more is found by its members' neighbours."""
_REVISED_MIN: Final = 2
"""Corrected so often, a memory tells less than that nobody agrees on it."""
_TOLD_APART: Final = (LinkType.CONFLICTS_WITH, LinkType.RELATES_TO)
"""Links by which somebody has said of two that they are not the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    """What is read, for whom."""

    house: House
    task: Task
    project: str | None

    def look(self, *kinds: Kind, project: str | None) -> Look:
        """Confine a search to what the one who asked may see."""
        wanted = Filter(kinds=kinds, project=project, trust_min=0.0)
        return Look(caller=self.task.caller, filter=wanted, now=self.house.clock.now())

    def is_meant(self, one: Memory) -> bool:
        """Say whether a memory is part of the report."""
        return (
            one.kind in _KINDS
            and one.state in CURRENT_STATES
            and not one.is_over(self.house.clock.now())
            and self.project in {None, one.project}
            and is_visible(self.task.caller, one)
        )


def consolidate(task: Task) -> None:
    """Compare rules and facts with their neighbours, page by page, and report; changes nothing.

    Raises:
        Invalid: a project has more rules than anybody could go through.
        Unavailable: something has no vector yet, and the embedder is down.

    """
    project = cast("str | None", task.job.given.get("project"))
    ask = _Ask(house=task.house, task=task, project=project)
    with task.house.store.snapshot(task.caller.tenant) as tx:
        _check_rules(tx, ask)
        total = sum(tx.memories.counts().values())
    while task.is_live:
        _read_page(ask, task, total=total)


def _check_rules(tx: Transaction, ask: _Ask) -> None:
    look = ask.look(Kind.RULE, project=ask.project)
    found = tx.memories.newest(look, limit=CONSOLIDATED_RULES_MAX + 1)
    if len(found) > CONSOLIDATED_RULES_MAX:
        raise Invalid(
            f"There are more than {CONSOLIDATED_RULES_MAX} rules: a report on them has no reader.",
            hint="Give a project, or forget rules that nobody goes by.",
        )


def _read_page(ask: _Ask, task: Task, *, total: int) -> None:
    reached: dict[str, Any] = {"after": 0, "read": 0, "near": [], "revised": [], **task.job.reached}
    tenant = task.caller.tenant
    with ask.house.store.snapshot(tenant) as tx:
        page = tx.memories.page(after=reached["after"], limit=EMBED_BATCH)
        meant = [one for one in tx.memories.get(page).values() if ask.is_meant(one)]
        kept = tx.index.first_windows([one.id for one in meant])
    # Only what was stored while the embedder was down is embedded; `embed` keeps it, not this.
    made = vectors_for([one for one in meant if one.id not in kept], ask.house.embedder)
    queries = kept | {id_: vectors.windows[0] for id_, vectors in made.items()}
    with ask.house.store.snapshot(tenant) as tx:
        near = _near(tx, ask, memories=meant, queries=queries)
    known = {(one, other): cosine for one, other, cosine in reached["near"]} | near
    often = [[one.id, one.superseded_count] for one in meant if _is_revised(one)]
    reached |= {
        "read": reached["read"] + len(meant),
        "near": [[*pair, cosine] for pair, cosine in list(known.items())[:NEAR_PAIRS_MAX]],
        "revised": _most([*reached["revised"], *often]),
    }
    with task.step() as tx:
        if len(page) < EMBED_BATCH:
            task.finish(tx, _report(reached))
        else:
            reached["after"] = page[-1]
            done = reached.get("paged", 0) + len(page)
            reached["paged"] = done
            task.reach(tx, done / max(total, done, 1), reached=reached)


def _near(
    tx: Transaction, ask: _Ask, *, memories: Sequence[Memory], queries: Mapping[int, Matrix]
) -> dict[tuple[int, int], float]:
    """Find pairs of a kind that lie near, but for those that somebody has told apart."""
    at_least = ask.house.embedder.space.similar_at
    found: dict[tuple[int, int], float] = {}
    for one in memories:
        look = ask.look(one.kind, project=ask.project or one.project)
        for hit in tx.index.nearest(queries[one.id], look, limit=_NEIGHBOURS, at_least=at_least):
            if hit.id != one.id and hit.score >= at_least:
                found[min(one.id, hit.id), max(one.id, hit.id)] = round(hit.score, 4)
    ends = sorted({end for pair in found for end in pair})
    apart = {
        (min(link.from_id, link.to_id), max(link.from_id, link.to_id))
        for link in tx.links.touching(ends, types=_TOLD_APART)
    }
    return {pair: cosine for pair, cosine in found.items() if pair not in apart}


def _is_revised(one: Memory) -> bool:
    return one.superseded_count >= _REVISED_MIN


def _most(revised: list[list[int]]) -> list[list[int]]:
    return sorted(revised, key=lambda one: -one[1])[:CONSOLIDATED_SHOWN_MAX]


def _report(reached: Mapping[str, Any]) -> dict[str, object]:
    found = cliques({(one, other): cosine for one, other, cosine in reached["near"]})
    return {
        "read": reached["read"],
        "near_pairs": len(reached["near"]),
        "cliques": [_shown(one) for one in found[:CONSOLIDATED_SHOWN_MAX]],
        "revised": [
            {"id": ids.show(ids.MEMORY, id_), "revisions": count}
            for id_, count in reached["revised"]
        ],
    }


def _shown(one: Clique) -> dict[str, object]:
    """Tell of a clique, with the calls that would make one memory of it."""
    newest, *rest = (ids.show(ids.MEMORY, id_) for id_ in sorted(one.ids, reverse=True))
    return {
        "ids": [newest, *rest],
        "weakest": one.weakest,
        "settle": [
            f"revise supersede {newest} TEXT --reason WHY",
            f"forget {' '.join(rest)} --reason WHY",
        ],
    }
