"""How good a ranking is: recall at k of all and of any evidence, nDCG@10, reciprocal rank.

`R@k all` is 1 when every source of the answer is among the first k, `R@k any` when one of them is;
`R@10 mean` is the share of the sources that are among the first ten.
trec_eval measures per question; the means are taken over the questions that have evidence.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final

DEPTH: Final = 20
"""How far a ranking is looked at; the reciprocal rank of what comes later is 0."""
CUTS: Final = (1, 5, 10, 20)
_PARTS: Final = {f"R@{k} all": f"recall_{k}" for k in CUTS}
_WHOLE: Final = {
    **{f"R@{k} any": f"success_{k}" for k in CUTS},
    "R@10 mean": "recall_10",
    "nDCG@10": "ndcg_cut_10",
    "MRR": "recip_rank",
}
METRICS: Final = (*_PARTS, *_WHOLE)
"""Each 0..1, by the name that is printed."""

Gold = Mapping[str, Mapping[str, int]]
"""Relevance of sources by question."""
Rankings = Mapping[str, Sequence[str]]
"""Sources by question, best first, each once."""


def measure(gold: Gold, rankings: Rankings) -> dict[str, dict[str, float]]:
    """Return every metric of every question; one without a ranking found nothing."""
    trec = import_module("pytrec_eval")
    cuts = ",".join(map(str, CUTS))
    measure_names = {"ndcg_cut.10", "recip_rank", f"recall.{cuts}", f"success.{cuts}"}
    judge: Any = trec.RelevanceEvaluator(
        {id_: dict(question_id_of) for id_, question_id_of in gold.items()}, measure_names
    )
    values_by_question = judge.evaluate({id_: _scored(rankings.get(id_, ())) for id_ in gold})
    return {id_: _rename_measures(values_by_question.get(id_, {})) for id_ in gold}


def _scored(ranking: Sequence[str]) -> dict[str, float]:
    """Return scores that fall by rank: trec_eval sorts by score, and breaks ties by name."""
    return {source: float(DEPTH - rank) for rank, source in enumerate(ranking[:DEPTH])}


def _rename_measures(values_by_question: Mapping[str, float]) -> dict[str, float]:
    # trec_eval tells the share of the evidence that was found; all of it is a share of 1.
    parts = {name: float(values_by_question.get(key, 0.0) >= 1.0) for name, key in _PARTS.items()}
    whole = {name: round(values_by_question.get(key, 0.0), 6) for name, key in _WHOLE.items()}
    return {**parts, **whole}
