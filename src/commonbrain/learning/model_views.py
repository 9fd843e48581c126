"""What admins are shown of models: their cards, their moves, and what guards make of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from commonbrain.learning.monitor import ModelEvaluation
from commonbrain.learning.outcomes import Figures
from commonbrain.learning.rollout import KeepCanary, NotEnoughTraffic, Promote, RollBack, Verdict
from commonbrain.learning.transitions import ACTION, model_name
from commonbrain.model import ids
from commonbrain.model.model_card import ModelCard, ModelRole, ModelState

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_AUDIT_LINES: Final = 1000
"""The latest lines of the audit of access, in which the moves of a model are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionView:
    """One move of a model."""

    at: datetime
    agent: str | None
    """`guards` where nobody did it."""
    to: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelView:
    """One model: what it is, where it stands and since when."""

    id: str
    role: ModelRole
    state: ModelState
    since: datetime
    reason: str | None
    made_at: datetime
    percent: float | None = None
    """Of the sessions that it serves, while it is a canary."""
    allow: tuple[str, ...] = ()
    parent: str | None = None
    digest: str | None = None
    """Of its artifact; None too where that was dropped."""
    features: tuple[str, ...] | None = None
    told: Mapping[str, object] | None = None
    """Of what it was made, how, and how it fared before it served."""
    moves: tuple[TransitionView, ...] | None = None
    """The latest first, as far as the audit of access is looked through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationView:
    """What guards make of a model that serves."""

    id: str
    state: ModelState
    verdict: str
    """keep, too_early, promote or roll_back."""
    reason: str
    served: Figures
    control: Figures
    """Of what serves the others meanwhile; of an active model, its own as a canary."""
    riskier: int
    """In how many of its latest recalls it showed more that should not be trusted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsResponse:
    """Models after a call, and what the guards make of them where that was asked."""

    op: str
    models: tuple[ModelView, ...]
    guards: tuple[EvaluationView, ...] | None = None
    is_preview: bool = False
    """Whether that is how they would be, and nothing was moved."""
    job: str | None = None
    """Which trains a new one."""
    role: ModelRole | None = None
    """Of which alone was asked."""


def transitions_of(tx: Transaction, card: ModelCard) -> list[TransitionView]:
    """List the moves of a model, the latest first."""
    begins = f"{model_name(card)}: "
    return [
        TransitionView(
            at=line.at,
            agent=line.agent,
            to=line.action.removeprefix(ACTION),
            why=(line.subject or "").removeprefix(begins),
        )
        for line in tx.credentials.audit_entries(limit=_AUDIT_LINES)
        if line.action.startswith(ACTION) and (line.subject or "").startswith(begins)
    ]


def summary_view(card: ModelCard) -> ModelView:
    """Show where a model stands."""
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
    """Show all that is told of a model."""
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
    """Show what guards make of a model."""
    return EvaluationView(
        id=model_name(judged.card),
        state=judged.card.state,
        verdict=_VERDICTS[type(judged.verdict)],
        reason=explain_decision(judged.verdict),
        served=judged.served,
        control=judged.control,
        riskier=judged.riskier,
    )


_VERDICTS: Final[Mapping[type[Verdict], str]] = {
    KeepCanary: "keep",
    NotEnoughTraffic: "too_early",
    Promote: "promote",
    RollBack: "roll_back",
}


def explain_decision(verdict: Verdict) -> str:
    """Say why a verdict is what it is."""
    match verdict:
        case NotEnoughTraffic(needs=needs):
            return f"{'; '.join(needs)}."
        case RollBack(guard=guard, reason=reason):
            return f"{guard}: {reason}."
        case KeepCanary(reason=reason) | Promote(reason=reason):
            return reason
