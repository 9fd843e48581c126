"""State transitions of models, with their side effects and an audit entry."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from commonbrain.model import ids
from commonbrain.model.errors import RejectedError
from commonbrain.model.limits import MODELS_SHOWN_MAX
from commonbrain.model.model_card import ModelCard, ModelState
from commonbrain.storage.administration import AccessEntry
from commonbrain.storage.interface import Transaction

_SUBJECT_CHARS_MAX: Final = 160
"""Maximum length of an audit subject: the model id and the beginning of the reason."""
ACTION: Final = "model_"
"""Prefix of the audit action; the new state follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who changes a model's state, when and why."""

    at: datetime
    agent: str
    reason: str
    credential: str | None = None
    request_id: str | None = None


def start_canary(
    tx: Transaction, card: ModelCard, *, percent: float, allow: Sequence[str], by: Actor
) -> list[ModelCard]:
    """Let a model serve a share of sessions, or change the share of a canary.

    Raises:
        RejectedError: `model_state`: it cannot serve; `canary_taken`: another is on trial; or
            `model_moved`.

    """
    other = _other(tx, card, state=ModelState.CANARY)
    if other is not None:
        raise RejectedError(
            f"{model_name(other)} is the canary already.",
            code="canary_taken",
            hint="Promote it, roll it back or retire it first.",
        )
    shares = replace(card, percent=percent, allow=tuple(allow))
    if card.state is ModelState.CANARY:
        # The trial continues: its outcomes so far still count.
        return [_moved(tx, card, after=shares, by=by)]
    on_trial = shares.moved(ModelState.CANARY, at=by.at, reason=by.reason)
    return [_moved(tx, card, after=on_trial, by=by)]


def promote(tx: Transaction, card: ModelCard, *, by: Actor) -> list[ModelCard]:
    """Let a model serve all sessions and retire the previous one in the same transaction.

    Raises:
        RejectedError: `model_state` or `model_moved`; nothing changed.

    """
    after = card.moved(ModelState.ACTIVE, at=by.at, reason=by.reason)
    before = _other(tx, card, state=ModelState.ACTIVE)
    moved: list[ModelCard] = []
    if before is not None:
        why = _replaced(card)
        retired = before.moved(ModelState.RETIRED, at=by.at, reason=why)
        moved.append(_moved(tx, before, after=retired, by=replace(by, reason=why)))
    return [_moved(tx, card, after=after, by=by), *moved]


def roll_back(tx: Transaction, card: ModelCard, *, by: Actor) -> list[ModelCard]:
    """Remove a model from service; if it was active, the model that it replaced serves again.

    Raises:
        RejectedError: `model_state` or `model_moved`; nothing changed.

    """
    after = card.moved(ModelState.ROLLED_BACK, at=by.at, reason=by.reason)
    moved = [_moved(tx, card, after=after, by=by)]
    before = replaced_by(tx, card)
    if before is not None:
        why = f"{model_name(card)}, which had its place, was rolled back"
        again = before.moved(ModelState.ACTIVE, at=by.at, reason=why)
        moved.append(_moved(tx, before, after=again, by=replace(by, reason=why)))
    return moved


def retire(tx: Transaction, card: ModelCard, *, by: Actor) -> list[ModelCard]:
    """Retire a model in service, or a candidate, without blame.

    Raises:
        RejectedError: `model_state` or `model_moved`.

    """
    retired = card.moved(ModelState.RETIRED, at=by.at, reason=by.reason)
    return [_moved(tx, card, after=retired, by=by)]


def replaced_by(tx: Transaction, card: ModelCard) -> ModelCard | None:
    """Find the model that an active one replaced, by the reason of its retirement.

    A model whose artifact was deleted since cannot serve again.
    """
    if card.state is not ModelState.ACTIVE:
        return None
    known = tx.registry.listed(card.role, limit=MODELS_SHOWN_MAX)
    retired = (one for one in known if one.state is ModelState.RETIRED and one.digest)
    return next((one for one in retired if one.reason == _replaced(card)), None)


def model_name(card: ModelCard) -> str:
    """Return the public id of a model."""
    return ids.show(ids.MODEL, card.id)


def _replaced(card: ModelCard) -> str:
    return f"{model_name(card)} took its place"


def _other(tx: Transaction, card: ModelCard, *, state: ModelState) -> ModelCard | None:
    serving = tx.registry.serving(card.role)
    return next((one for one in serving if one.state is state and one.id != card.id), None)


def _moved(tx: Transaction, before: ModelCard, *, after: ModelCard, by: Actor) -> ModelCard:
    if not tx.registry.move(before, after):
        raise RejectedError(
            f"{model_name(before)} was moved by another meanwhile.",
            code="model_moved",
            hint="Look at it again.",
        )
    tx.credentials.note(
        AccessEntry(
            at=by.at,
            action=f"{ACTION}{after.state}",
            agent=by.agent,
            credential=by.credential,
            request_id=by.request_id,
            subject=f"{model_name(after)}: {by.reason}"[:_SUBJECT_CHARS_MAX],
        )
    )
    return after
