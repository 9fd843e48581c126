"""Cross-encoding: a model reads the query with each of the best candidates, and orders them.

It works in threads of its own, within a limit; if it fails, the order stays and `degraded` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final

from commonbrain.model.errors import CommonbrainError
from commonbrain.model.model_card import CROSS_ENCODER
from commonbrain.model.query import Candidate
from commonbrain.retrieval.table import GUIDANCE, SKILL
from commonbrain_models.guarded_model import (
    GuardedModel,
    InvalidModelError,
    ModelLimits,
    Scored,
    ScoringFailure,
)
from commonbrain_models.onnx_cross_encoder import OnnxCrossEncoder

if TYPE_CHECKING:
    from commonbrain.clock import Clock, Deadline
    from commonbrain.embeddings.interface import Options
    from commonbrain.retrieval.plan import QueryPlan
    from commonbrain.retrieval.table import Table

CANDIDATES_DEFAULT: Final = 20
"""More than the 12 items of a result, so that some can move up into it."""
TIMEOUT_S_DEFAULT: Final = 1.0
"""A model of 6 layers scores 20 short texts in a fifth of it on two cores."""
_LOAD_WAIT_S: Final = 30.0
"""The first recall of a process waits for the model as it does for the embedder."""
_FAILURES: Final = 3
_COOLDOWN_MS: Final = 30_000.0
"""A model that is too slow for this machine stays so; meanwhile recall does not wait for it."""


class CrossEncoding:
    """Calls the cross-encoder of this process; thread-safe."""

    def __init__(
        self,
        model: OnnxCrossEncoder,
        *,
        clock: Clock,
        candidates: int = CANDIDATES_DEFAULT,
        timeout_s: float = TIMEOUT_S_DEFAULT,
    ) -> None:
        self.model = model
        self.candidates = candidates
        self._clock = clock
        limits = ModelLimits(
            limit_ms=timeout_s * 1000,
            failures=_FAILURES,
            cooldown_ms=_COOLDOWN_MS,
            load_wait_s=_LOAD_WAIT_S,
        )
        self._guarded = GuardedModel(self._load, clock=clock, limits=limits)

    @property
    def name(self) -> str:
        """The name of the model, shown to all callers."""
        return self.model.name

    def ready(self, *, timeout_ms: float | None) -> ScoringFailure | None:
        """Load the model if needed; the first caller waits. None when it is ready."""
        return self._guarded.ready(timeout_ms=timeout_ms)

    def ask(
        self, query: str, texts: Sequence[str], *, timeout_ms: float | None
    ) -> Scored | ScoringFailure:
        """Score texts within the limit or the caller's remaining time."""
        is_over = Event()

        def question(model: OnnxCrossEncoder) -> Scored:
            with _without_details():
                return Scored(model.scores(query, texts, is_over=is_over.is_set))

        try:
            return self._guarded.ask(question, timeout_ms=timeout_ms)
        finally:
            is_over.set()

    def reranker(self, plan: QueryPlan, *, deadline: Deadline) -> Callable[[Table], None]:  # noqa: ARG002 all are served alike
        """Load the model if needed, and return what orders candidates by it."""
        failure = self.ready(timeout_ms=deadline.left_ms)
        return partial(self._order, failure=failure, deadline=deadline)

    def check(self) -> None:
        """Load the model, and score one pair.

        Raises:
            CommonbrainError: It does not work.

        """
        self.model.load()

    def _order(self, table: Table, *, failure: ScoringFailure | None, deadline: Deadline) -> None:
        """Order the best candidates of a table; each place keeps its score.

        Skills stay first, and wishes stay where they are: they say how to answer, not what.
        """
        before = table.ranked
        places = [
            place
            for place, one in enumerate(before)
            if not (one.features.get(SKILL) or one.features.get(GUIDANCE))
        ][: self.candidates]
        if not places:
            return
        began_ms = self._clock.elapsed_ms()
        answer = failure or self.ask(
            table.plan.query, [before[at].memory.text for at in places], timeout_ms=deadline.left_ms
        )
        took_ms = round(self._clock.elapsed_ms() - began_ms, 3)
        table.taken_ms = {**table.taken_ms, CROSS_ENCODER: took_ms}
        if isinstance(answer, ScoringFailure):
            table.degraded.append(f"{CROSS_ENCODER}: {self.name} {answer.reason}")
            return
        table.ranked = list(before)
        # Sorting is stable: on a tie, the order before decides.
        best_first = sorted(zip(answer.scores, places, strict=True), key=lambda one: -one[0])
        for place, (score, moved) in zip(places, best_first, strict=True):
            table.ranked[place] = _placed(before[moved], at=before[place], score=score)

    def close(self) -> None:
        """Release the model without waiting."""
        self._guarded.close()

    def _load(self) -> OnnxCrossEncoder:
        with _without_details():
            self.model.load()
        return self.model


def _placed(candidate: Candidate, *, at: Candidate, score: float) -> Candidate:
    """Move a candidate to the place of another, whose score packing can compare."""
    features = {**candidate.features, CROSS_ENCODER: score}
    return replace(candidate, score=at.score, features=features)


@contextmanager
def _without_details() -> Generator[None]:
    """Leave out what an error says of files: `degraded` goes to callers over the network too."""
    try:
        yield
    except CommonbrainError as error:
        raise InvalidModelError("does not work; `brain doctor` says why") from error


def make_reranker(
    options: Options, *, clock: Clock, candidates: int, timeout_s: float
) -> CrossEncoding:
    """Make the reranker `onnx` from settings; loads nothing yet."""
    model = OnnxCrossEncoder(
        Path(options.model or ""), threads=options.threads, records=options.records
    )
    return CrossEncoding(model, clock=clock, candidates=candidates, timeout_s=timeout_s)
