"""Model administration: list models, show them and change their state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, NotFoundError, RejectedError
from commonbrain.model.limits import (
    CANARY_AGENTS_MAX,
    MODELS_SHOWN_MAX,
    NAME_CHARS_MAX,
    REASON_CHARS_MAX,
)
from commonbrain.model.model_card import (
    BETTER,
    SERVING,
    ModelCard,
    ModelRole,
    ModelState,
    model_name,
)
from commonbrain.model.paging import Listing
from commonbrain.model.scope import Caller, Role
from commonbrain.services import Services
from commonbrain_learn.monitor import ModelEvaluation, evaluate
from commonbrain_learn.outcomes import Figures
from commonbrain_learn.rollout import (
    ACTION,
    PERCENT_DEFAULT,
    Actor,
    CanaryDecision,
    NoChange,
    NotEnoughTraffic,
    Promote,
    RollBack,
    promote,
    retire,
    roll_back,
    start_canary,
)

if TYPE_CHECKING:
    from commonbrain.client import Brain
    from commonbrain.storage.store import Transaction

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
    next: str | None = None
    """The cursor of the next page; None on the last one."""
    more: int = 0
    """Models after this page; 1,000 means 1,000 or more."""


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
        for line in tx.credentials.audit_entries(limit=_AUDIT_LINES)
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
    NoChange: "keep",
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
        case NoChange(reason=reason) | Promote(reason=reason):
            return reason


_Transition = Callable[["Transaction", ModelCard], list[ModelCard]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionOptions:
    """Reason and options of a transition."""

    reason: str | None = None
    is_forced: bool = False
    """Whether to skip the evidence that the model is better, or not worse."""
    is_preview: bool = False


DEFAULT_TRANSITION: Final = TransitionOptions()


@dataclass(frozen=True, slots=True)
class ManageModels:
    """Administers the models of one tenant."""

    services: Services
    caller: Caller

    def __call__(
        self,
        role: ModelRole | None = None,
        *,
        limit: int = MODELS_SHOWN_MAX,
        cursor: str | None = None,
    ) -> ModelsResponse:
        """List models, newest first; `cursor` is `next` of the page before.

        Raises:
            InvalidInputError: the cursor is malformed.
            RejectedError: `insufficient_role` or `limit_exceeded`.

        """
        self._check()
        listing = Listing(name="models", limit=limit, cursor=cursor, filters={"role": role})
        after = listing.checked(MODELS_SHOWN_MAX).after(int)
        before = None if after is None else int(after[0])
        with self.services.store.snapshot(self.caller.tenant) as tx:
            page = listing.page(
                tx.models.listed(role, before=before, limit=limit + 1),
                key=lambda card: (card.id,),
                count=lambda most: len(tx.models.listed(role, before=before, limit=most)),
            )
        return ModelsResponse(
            op="list",
            models=tuple(map(summary_view, page.rows)),
            role=role,
            next=page.next,
            more=page.more,
        )

    def show(self, id_: str) -> ModelsResponse:
        """Return a model's card and transitions.

        Raises:
            NotFoundError: The tenant has no such model.

        """
        self._check()
        with self.services.store.snapshot(self.caller.tenant) as tx:
            card = _known(tx, id_)
            moves = tuple(transitions_of(tx, card))
        return ModelsResponse(op="show", models=(full_view(card, moves),))

    def canary(
        self,
        id_: str,
        *,
        percent: float = PERCENT_DEFAULT,
        allow: Sequence[str] = (),
        move: TransitionOptions = DEFAULT_TRANSITION,
    ) -> ModelsResponse:
        """Let a model serve a fixed share of sessions, and some agents in all sessions.

        Raises:
            NotFoundError: The tenant has no such model.
            InvalidInputError: The share is invalid, there are too many agents, or a forced
                transition has no reason.
            RejectedError: `model_unproven`: it was found no better; `model_state` or
                `canary_taken`.

        """
        _check_reason(move)
        if not 0 <= percent <= 100 or not (percent or allow):  # noqa: PLR2004 of a hundred
            raise InvalidInputError(
                f"A canary cannot serve {percent}% of the sessions.",
                hint="Give more than 0 and up to 100, or agents to serve.",
            )
        if len(allow) > CANARY_AGENTS_MAX or any(
            not 0 < len(name) <= NAME_CHARS_MAX for name in allow
        ):
            raise InvalidInputError(f"A canary serves up to {CANARY_AGENTS_MAX} agents by name.")
        by = self._by(move, usual=f"on trial with {percent:g}% of the sessions")

        def begin(tx: Transaction, card: ModelCard) -> list[ModelCard]:
            _check_is_offered(card, is_forced=move.is_forced)
            return start_canary(tx, card, percent=percent, allow=allow, by=by)

        return self._moved("canary", id_, move=begin, is_preview=move.is_preview)

    def promote(self, id_: str, *, move: TransitionOptions = DEFAULT_TRANSITION) -> ModelsResponse:
        """Let a model serve all sessions and retire the previous one.

        Raises:
            NotFoundError: The tenant has no such model.
            InvalidInputError: A forced transition has no reason.
            RejectedError: `model_unproven`: its trial has not shown that it is not worse;
                `model_state`.

        """
        _check_reason(move)
        by = self._by(move, usual="promoted by hand")

        def lift(tx: Transaction, card: ModelCard) -> list[ModelCard]:
            if not move.is_forced:
                _check_is_proven(card, self._judged(tx, card))
            return promote(tx, card, by=by)

        return self._moved("promote", id_, move=lift, is_preview=move.is_preview)

    def roll_back(
        self, id_: str, *, move: TransitionOptions = DEFAULT_TRANSITION
    ) -> ModelsResponse:
        """Remove a model from service permanently; the model that it replaced serves again.

        Raises:
            NotFoundError: The tenant has no such model.
            RejectedError: `model_state`: it is not in service.

        """
        by = self._by(move, usual="rolled back by hand")
        return self._moved(
            "rollback",
            id_,
            move=lambda tx, card: roll_back(tx, card, by=by),
            is_preview=move.is_preview,
        )

    def retire(self, id_: str, *, move: TransitionOptions = DEFAULT_TRANSITION) -> ModelsResponse:
        """Remove a model from service without blame; it can be tried again.

        Raises:
            NotFoundError: The tenant has no such model.
            RejectedError: `model_state`.

        """
        by = self._by(move, usual="retired by hand")
        return self._moved(
            "retire", id_, move=lambda tx, card: retire(tx, card, by=by), is_preview=move.is_preview
        )

    def guards(self, id_: str | None = None) -> ModelsResponse:
        """Evaluate one or all models in service without changing their state.

        Raises:
            NotFoundError: The tenant has no such model.
            RejectedError: `model_state`: it is not in service.

        """
        self._check()
        with self.services.store.snapshot(self.caller.tenant) as tx:
            serving = tx.models.serving(ModelRole.RERANKER)
            cards = serving if id_ is None else [_known(tx, id_)]
            judged = [self._needed(tx, card) for card in cards]
        return ModelsResponse(
            op="guards",
            models=tuple(summary_view(card) for card in cards),
            guards=tuple(map(to_evaluation_view, judged)),
        )

    def _needed(self, tx: Transaction, card: ModelCard) -> ModelEvaluation:
        judged = self._judged(tx, card)
        if judged is None:
            raise RejectedError(
                f"{model_name(card)}, for {card.role}, is {card.state}: no guard looks at it.",
                code="model_state",
                hint="They look at rerankers that serve.",
            )
        return judged

    def _judged(self, tx: Transaction, card: ModelCard) -> ModelEvaluation | None:
        """Evaluate a model; None for roles that are not monitored."""
        is_watched = card.state in SERVING and card.role is ModelRole.RERANKER
        return evaluate(tx, card) if is_watched else None

    def _moved(self, op: str, id_: str, *, move: _Transition, is_preview: bool) -> ModelsResponse:
        """Change a model's state in one transaction; a preview rolls it back."""
        self._check()
        moved: list[ModelCard] = []
        with suppress(_PreviewRollback), self.services.store.begin(self.caller.tenant) as tx:
            moved = move(tx, _known(tx, id_))
            if is_preview:
                raise _PreviewRollback
        if not is_preview:
            self.services.trained.forget(self.caller.tenant)
        return ModelsResponse(op=op, models=tuple(map(summary_view, moved)), is_preview=is_preview)

    def _by(self, move: TransitionOptions, *, usual: str) -> Actor:
        reason = move.reason or usual
        if len(reason) > REASON_CHARS_MAX:
            raise RejectedError(
                f"The reason has {len(reason)} characters; {REASON_CHARS_MAX} are allowed.",
                code="limit_exceeded",
                hint="Say it in a sentence.",
            )
        admission = self.caller.admission
        return Actor(
            at=self.services.clock.now(),
            agent=self.caller.agent,
            reason=reason,
            credential=admission.credential if admission else None,
            request_id=self.caller.request_id,
        )

    def _check(self) -> None:
        if self.caller.role is not Role.ADMIN:
            raise RejectedError(
                f"Agent {self.caller.agent} is a {self.caller.role}; models take an admin.",
                code="insufficient_role",
                hint="Ask an admin.",
            )


def models_of(brain: Brain) -> ManageModels:
    """Return what manages the models of a brain's tenant.

    Example: `models_of(brain).promote("mdl_06f8v2k1m0q4t")`.
    """
    return ManageModels(brain.services, brain.caller)


class _PreviewRollback(Exception):
    """Rolls back the transaction of a preview."""


def _known(tx: Transaction, id_: str) -> ModelCard:
    card = tx.models.get(ids.parse(ids.MODEL, id_))
    if card is None:
        raise NotFoundError(f"There is no model {id_[:40]!r}.", hint="List the models there are.")
    return card


def _check_is_offered(card: ModelCard, *, is_forced: bool) -> None:
    """Reject a trial of a model without one, or that offline evaluation found no better."""
    if card.role is not ModelRole.RERANKER:
        raise _no_trial_error(card, code="model_state")
    if card.outcome != BETTER and not is_forced:
        raise RejectedError(
            f"{model_name(card)} was judged {card.outcome} when it was made.",
            code="model_unproven",
            hint="Train another when there are more marks, or force it and say why.",
        )


def _no_trial_error(card: ModelCard, *, code: str) -> RejectedError:
    """Create the error for a model whose effect cannot be measured soon."""
    return RejectedError(
        f"{model_name(card)} is for {card.role}, which cannot be tried on a share of calls or "
        "monitored.",
        code=code,
        hint="Judge it by its card, and promote it with force and a reason; retire reverses it.",
    )


def _check_reason(move: TransitionOptions) -> None:
    if move.is_forced and not move.reason:
        raise InvalidInputError("What is forced needs a reason.", hint="Give reason.")


def _check_is_proven(card: ModelCard, judged: ModelEvaluation | None) -> None:
    """Reject a promotion unless the trial has shown that the model is no worse."""
    if card.role is not ModelRole.RERANKER:
        raise _no_trial_error(card, code="model_unproven")
    if judged is not None and isinstance(judged.verdict, Promote):
        return
    why = "it was on no trial" if judged is None else explain_decision(judged.verdict)
    raise RejectedError(
        f"{model_name(card)} is not proven: {why}",
        code="model_unproven",
        hint="Wait for more recalls, or force it and say why.",
    )
