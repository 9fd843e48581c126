"""What was said around what was found: neighbours of a message speak for it, and may answer too.

An answer is seldom said in the words of its question; what is said just before it often is. The
scores of a passage are the means of its messages' own, so that nothing is embedded twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import fsum
from typing import Final

from commonbrain.retrieval.fusion import WORDS, Found
from commonbrain.retrieval.query_plan import Plan
from commonbrain.retrieval.retrievers import MEANING, Asked, Scores
from commonbrain.storage.coordination import Passage
from commonbrain.storage.interface import Transaction

STAGE: Final = "passages"
_BEFORE: Final = 2
_AFTER: Final = 1
"""What is said next answers to a message more often than it explains it."""
_REACH: Final = max(_BEFORE, _AFTER)
"""How far either way a message is read around: so far lie the passages that it is part of."""


@dataclass(frozen=True, slots=True)
class Passages:
    """How well the passages around messages match, beside what each matches by itself."""

    views: Mapping[str, Scores] = field(default_factory=dict[str, Scores])
    """By arm: the mean of a passage, by the id of the message that it is around."""
    found: Found = field(default_factory=dict[str, Scores])
    """By arm: what was found, and the neighbours."""
    threads: Mapping[int, int] = field(default_factory=dict[int, int])
    """The thread of each message."""
    after: Mapping[int, int] = field(default_factory=dict[int, int])
    """What was said right after each message."""
    before: Mapping[int, int] = field(default_factory=dict[int, int])
    """What was said right before it."""


def read_around(tx: Transaction, plan: Plan, *, found: Found, asked: Asked) -> Passages:
    """Read what was said around the messages that were found, as far as the look allows it."""
    if not plan.query or plan.is_unasked or not plan.tuning.has(STAGE):
        return Passages(found=found)
    ids = list(dict.fromkeys(id_ for arm in (WORDS, MEANING) for id_ in found[arm]))
    around = tx.threads.around(ids, plan.look, before=_REACH, after=_REACH)
    if not around:
        return Passages(found=found)
    threads = {id_: passage.thread for passage in around.values() for id_ in passage.ids}
    strangers = [id_ for id_ in threads if id_ not in found[MEANING]]
    near = tx.index.similarities(asked.meant, strangers) if asked.meant is not None else {}
    known = {WORDS: found[WORDS], MEANING: {**found[MEANING], **near}}
    after = {one: next_ for of in around.values() for one, next_ in pairwise(of.ids)}
    said = _passages(around.values(), after)
    words = {
        id_: fsum([known[WORDS].get(one, 0.0) for one in ids]) / len(ids)
        for id_, ids in said.items()
    }
    return Passages(
        views={WORDS: words, MEANING: _means(known[MEANING], said)},
        found={**found, **known},
        threads=threads,
        after=after,
        before={next_: one for one, next_ in after.items()},
    )


def _passages(around: Iterable[Passage], after: Mapping[int, int]) -> Mapping[int, Sequence[int]]:
    """Give the passage around every message that is known, as far as it is."""
    ids = dict.fromkeys(id_ for passage in around for id_ in passage.ids)
    said: dict[int, Sequence[int]] = {}
    for first in ids.keys() - after.values():
        known = [first]
        while (later := after.get(known[-1])) is not None:
            known.append(later)
        for place, id_ in enumerate(known):
            said[id_] = known[max(0, place - _BEFORE) : place + _AFTER + 1]
    return said


def _means(scores: Mapping[int, float], said: Mapping[int, Sequence[int]]) -> Scores:
    """Give the mean of what has a score; what was never embedded says nothing either way."""
    told = {id_: [scores[one] for one in ids if one in scores] for id_, ids in said.items()}
    return {id_: fsum(each) / len(each) for id_, each in told.items() if each}
