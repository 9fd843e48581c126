"""Models as admins see them: what there is, what serves whom, and every way to move one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from commonbrain.learning.model_views import (
    ModelsResponse,
    explain_decision,
    full_view,
    summary_view,
    to_evaluation_view,
    transitions_of,
)
from commonbrain.learning.monitor import ModelEvaluation
from commonbrain.learning.rollout import Promote
from commonbrain.learning.transitions import (
    Actor,
    model_name,
    promote,
    retire,
    roll_back,
    start_canary,
)
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, NotFoundError, RejectedError
from commonbrain.model.limits import (
    CANARY_AGENTS_MAX,
    MODELS_SHOWN_MAX,
    NAME_CHARS_MAX,
    REASON_CHARS_MAX,
)
from commonbrain.model.model_card import BETTER, PERCENT_DEFAULT, SERVING, ModelCard, ModelRole
from commonbrain.model.scope import Caller, Role
from commonbrain.services import Services

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_Transition = Callable[["Transaction", ModelCard], list[ModelCard]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionOptions:
    """Why a model is moved, and how."""

    reason: str | None = None
    is_forced: bool = False
    """Whether it is moved though nothing has shown that it is better, or not worse."""
    is_preview: bool = False


DEFAULT_TRANSITION: Final = TransitionOptions()


@dataclass(frozen=True, slots=True)
class ManageModels:
    """The models of one tenant, for its admins."""

    services: Services
    caller: Caller

    def __call__(self, role: ModelRole | None = None) -> ModelsResponse:
        """List models, the newest first.

        Raises:
            RejectedError: `insufficient_role`.

        """
        self._check()
        with self.services.store.snapshot(self.caller.tenant) as tx:
            cards = tx.models.listed(role, limit=MODELS_SHOWN_MAX)
        return ModelsResponse(op="list", models=tuple(map(summary_view, cards)), role=role)

    def show(self, id_: str) -> ModelsResponse:
        """Show the card of one, with its moves.

        Raises:
            NotFoundError: there is none in this tenant.

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
        """Let a model serve a sticky share of the sessions, and some agents whatever their share.

        Raises:
            NotFoundError: there is none in this tenant.
            InvalidInputError: the share is none, there are too many agents, or it is forced without
                a reason.
            RejectedError: `model_unproven`, it was found no better; `model_state` or
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
        """Let a model serve everybody; what did until now is retired.

        Raises:
            NotFoundError: there is none in this tenant.
            InvalidInputError: it is forced without a reason.
            RejectedError: `model_unproven`, its trial has not shown that it is not worse;
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
        """Take a model out for good; what it had taken the place of serves again.

        Raises:
            NotFoundError: there is none in this tenant.
            RejectedError: `model_state`, it does not serve.

        """
        by = self._by(move, usual="rolled back by hand")
        return self._moved(
            "rollback",
            id_,
            move=lambda tx, card: roll_back(tx, card, by=by),
            is_preview=move.is_preview,
        )

    def retire(self, id_: str, *, move: TransitionOptions = DEFAULT_TRANSITION) -> ModelsResponse:
        """Take a model out of service for no fault of its own; it may be tried again.

        Raises:
            NotFoundError: there is none in this tenant.
            RejectedError: `model_state`.

        """
        by = self._by(move, usual="retired by hand")
        return self._moved(
            "retire", id_, move=lambda tx, card: retire(tx, card, by=by), is_preview=move.is_preview
        )

    def guards(self, id_: str | None = None) -> ModelsResponse:
        """Say what the guards make of every model that serves, or of one, and move nothing.

        Raises:
            NotFoundError: there is none of that id in this tenant.
            RejectedError: `model_state`, it does not serve.

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
        """Judge a model that guards look at; None where they do not."""
        is_watched = card.state in SERVING and card.role is ModelRole.RERANKER
        return self.services.guards.judged(tx, card) if is_watched else None

    def _moved(self, op: str, id_: str, *, move: _Transition, is_preview: bool) -> ModelsResponse:
        """Move a model in one transaction, which leaves nothing where it is only looked at."""
        self._check()
        moved: list[ModelCard] = []
        with suppress(_PreviewRollback), self.services.store.begin(self.caller.tenant) as tx:
            moved = move(tx, _known(tx, id_))
            if is_preview:
                raise _PreviewRollback
        if not is_preview:
            self.services.rerankers.forget(self.caller.tenant)
            self.services.saliences.forget(self.caller.tenant)
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


class _PreviewRollback(Exception):
    """Takes back what was done to show what would be."""


def _known(tx: Transaction, id_: str) -> ModelCard:
    card = tx.models.get(ids.parse(ids.MODEL, id_))
    if card is None:
        raise NotFoundError(f"There is no model {id_[:40]!r}.", hint="List the models there are.")
    return card


def _check_is_offered(card: ModelCard, *, is_forced: bool) -> None:
    """Refuse a trial to what has none, and to what was found no better before it served."""
    if card.role is not ModelRole.RERANKER:
        raise _no_trial_error(card, code="model_state")
    if card.outcome != BETTER and not is_forced:
        raise RejectedError(
            f"{model_name(card)} was judged {card.outcome} when it was made.",
            code="model_unproven",
            hint="Train another when there are more marks, or force it and say why.",
        )


def _no_trial_error(card: ModelCard, *, code: str) -> RejectedError:
    """Say of a model that nothing it does can be told apart soon."""
    return RejectedError(
        f"{model_name(card)} is for {card.role}, which has no trial, and no guard looks at it.",
        code=code,
        hint="Promote it with force and a reason, by what its card tells; retire takes it back.",
    )


def _check_reason(move: TransitionOptions) -> None:
    if move.is_forced and not move.reason:
        raise InvalidInputError("What is forced needs a reason.", hint="Give reason.")


def _check_is_proven(card: ModelCard, judged: ModelEvaluation | None) -> None:
    """Refuse what its trial has not shown to be no worse."""
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
