"""The study's recipes, computed as a plain script would: nothing is asked of recall.

What is recall's own here is only the reading of phrases of time and the list of function words.
"""

import math
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from commonbrain.model.revision import BeliefPeriod
from commonbrain.retrieval.plan import search_terms
from commonbrain.text.time_expressions.parser import parse_time_range
from commonbrain_evals.retrieval.baselines import Scores
from commonbrain_evals.retrieval.recipes import Recipe
from commonbrain_evals.retrieval.shapes import Places, Row, Shapes

_BROUGHT: Final = 100
"""Of each list, before they are blended."""
_USER: Final = "user"
_FADING: Final = timedelta(days=7)
"""How far from the time that a question names a text counts a third as near."""


def rank(shapes: Shapes, recipe: Recipe, *, text: str, now: datetime) -> Scores:
    """Blend what a recipe wants, over the best of each list, best first."""
    terms, vector = search_terms(text), shapes.vector(text)
    views = shapes.views if recipe.has_context else shapes.views[:1]
    lists = [
        (weight / len(views), row)
        for view in views
        for weight, row in (
            (recipe.words, view.words.score_terms(terms)),
            (1 - recipe.words, view.best_cosines(vector)),
        )
    ]
    user = np.array([one.speaker == _USER for one in shapes.memories])
    allowed = np.flatnonzero(user if recipe.is_of_user else np.ones_like(user))
    chosen = _best((row for _, row in lists), allowed)
    score = np.zeros(len(chosen))
    for weight, row in lists:
        score += weight * _normalized(row[chosen])
    if recipe.session:
        score += (
            recipe.session
            * _normalized(shapes.session_words.score_terms(terms))[shapes.session_of[chosen]]
        )
    if recipe.speaker:
        score += recipe.speaker * _is_speaker_named(shapes, text)[chosen]
    if recipe.user:
        score += recipe.user * user[chosen]
    if recipe.date:
        score += recipe.date * _temporal_nearness(shapes, text, now=now)[chosen]
    order = np.argsort(-score, kind="stable")
    return {shapes.memories[int(chosen[at])].id: float(score[at]) for at in order}


def _best(rows: Iterable[Row], allowed: Places) -> Places:
    """Give the places of the best of every list, in their order."""
    each = [allowed[np.argsort(-row[allowed], kind="stable")[:_BROUGHT]] for row in rows]
    return np.unique(np.concatenate(each))


def _normalized(row: Row) -> Row:
    """Bring numbers to 0..1."""
    if not len(row) or row.min() == row.max():
        return np.zeros_like(row)
    return (row - row.min()) / (row.max() - row.min())


def _is_speaker_named(shapes: Shapes, text: str) -> Row:
    query_words = text.casefold()
    speakers_named = {name for name in shapes.names if name.casefold() in query_words}
    return np.array([one.speaker in speakers_named for one in shapes.memories], dtype=np.float64)


def _temporal_nearness(shapes: Shapes, text: str, *, now: datetime) -> Row:
    """Say how near to the time that a question names each was said: 1 within, less by the day."""
    time_span = parse_time_range(text, now)
    if time_span is None:
        return np.zeros(len(shapes.memories))
    return np.array([_near(one.occurred_at, time_span[0]) for one in shapes.memories])


def _near(at: datetime, span: BeliefPeriod) -> float:
    gap = max(span.since - at, at - span.until, timedelta())
    return math.exp(-(gap / _FADING))
