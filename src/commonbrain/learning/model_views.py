"""Models as admins see them: cards, transitions and evaluations."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from commonbrain.learning.monitor import ModelEvaluation
from commonbrain.learning.outcomes import Figures
from commonbrain.learning.rollout import (
    CanaryDecision,
    KeepServing,
    NotEnoughTraffic,
    Promote,
    RollBack,
)
from commonbrain.learning.transitions import ACTION, model_name
from commonbrain.model import ids
from commonbrain.model.model_card import ModelCard, ModelRole, ModelState
from commonbrain.storage.interface import Transaction

_AUDIT_LINES: Final = 1000
"""Number of latest audit entries that are searched for transitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionView:
    """One state transition of a model."""

    at: datetime
    agent: str | None
    """`guards` for an automatic transition."""
    to: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelView:
    """One model: what it is, its state and since when."""

    id: str
    role: ModelRole
    state: ModelState
    since: datetime
    reason: str | None
    made_at: datetime
    percent: float | None = None
    """Percentage of sessions that a canary serves."""
    allow: tuple[str, ...] = ()
    parent: str | None = None
    digest: str | None = None
    """Digest of the artifact; None if it was deleted."""
    features: tuple[str, ...] | None = None
    told: Mapping[str, object] | None = None
    """Training data, parameters and offline metrics."""
    moves: tuple[TransitionView, ...] | None = None
    """Latest first, as far as the searched audit entries go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationView:
    """Evaluation of a model in service."""

    id: str
    state: ModelState
    verdict: str
    """keep, too_early, promote or roll_back."""
    reason: str
    served: Figures
    control: Figures
    """Figures of the model that serves other sessions; for an active model, its own as a canary."""
    riskier: int
    """Number of recent recalls that returned more untrusted memories than fixed weights would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsResponse:
    """Models after an operation, and their evaluation if requested."""

    op: str
    models: tuple[ModelView, ...]
    guards: tuple[EvaluationView, ...] | None = None
    is_preview: bool = False
    """Whether the result is a preview and nothing changed."""
    job: str | None = None
    """Id of the training job."""
    role: ModelRole | None = None
    """The role that the list is restricted to."""


def transitions_of(tx: Transaction, card: ModelCard) -> list[TransitionView]:
    """List the transitions of a model, latest first."""
    begins = f"{model_name(card)}: "
    return [
        TransitionView(
            at=line.at,
            agent=line.agent,
            to=line.action.removeprefix(ACTION),
            why=(line.subject or "").removeprefix(begins),
        )
        for line in tx.credentials.noted(limit=_AUDIT_LINES)
        if line.action.startswith(ACTION) and (line.subject or "").startswith(begins)
    ]


def summary_view(card: ModelCard) -> ModelView:
    """Return the state of a model."""
    is_canary = card.state is ModelState.CANARY
    return ModelView(
        id=model_name(card),
        role=card.role,
        state=card.state,
        since=card.moved_at,
        reason=card.reason,
        made_at=card.made_at,
        percent=card.percent if is_canary else None,
        allow=card.allow if is_canary else (),
    )


def full_view(card: ModelCard, moves: tuple[TransitionView, ...]) -> ModelView:
    """Return everything known about a model."""
    return ModelView(
        id=model_name(card),
        role=card.role,
        state=card.state,
        since=card.moved_at,
        reason=card.reason,
        made_at=card.made_at,
        percent=card.percent,
        allow=card.allow,
        parent=None if card.parent is None else ids.show(ids.MODEL, card.parent),
        digest=card.digest or None,
        features=card.features,
        told=card.told,
        moves=moves,
    )


def to_evaluation_view(judged: ModelEvaluation) -> EvaluationView:
    """Return the evaluation of a model."""
    return EvaluationView(
        id=model_name(judged.card),
        state=judged.card.state,
        verdict=_VERDICTS[type(judged.verdict)],
        reason=explain_decision(judged.verdict),
        served=judged.served,
        control=judged.control,
        riskier=judged.riskier,
    )


_VERDICTS: Final[Mapping[type[CanaryDecision], str]] = {
    KeepServing: "keep",
    NotEnoughTraffic: "too_early",
    Promote: "promote",
    RollBack: "roll_back",
}


def explain_decision(verdict: CanaryDecision) -> str:
    """Explain a decision in words."""
    match verdict:
        case NotEnoughTraffic(needs=needs):
            return f"{'; '.join(needs)}."
        case RollBack(guard=guard, reason=reason):
            return f"{guard}: {reason}."
        case KeepServing(reason=reason) | Promote(reason=reason):
            return reason
