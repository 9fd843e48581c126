"""Replies kept under an idempotency key, so that a call sent twice is done once."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from commonbrain.ingestion.preparation import Prepared
from commonbrain.ingestion.result import (
    Because,
    Outcome,
    Part,
    Remembered,
    Similar,
    Status,
    Suggestion,
)
from commonbrain.ingestion.validation import Rejected
from commonbrain.invalidation.preview import Unseated
from commonbrain.model import ids
from commonbrain.model.errors import Invalid, Refused
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import NAME_CHARS_MAX, REPLY_KEPT_S
from commonbrain.storage.interface import Look, Transaction
from commonbrain.storage.records import Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """The key a caller gave to one call, and the digest by which its content is told apart."""

    key: str
    digest: str


def make_ticket(key: str, gated: Sequence[Prepared | Rejected]) -> Ticket:
    """Make the ticket of a call; the digest is of what passed the screen, so it tells no secret.

    Raises:
        Invalid: the key is empty, too long or unprintable.

    """
    if not (0 < len(key) <= NAME_CHARS_MAX and key.isprintable()):
        raise Invalid(
            f"The idempotency key has {len(key)} characters.",
            hint=f"Give 1 to {NAME_CHARS_MAX} printable ones.",
        )
    told = [asdict(one.draft if isinstance(one, Prepared) else one) for one in gated]
    written = json.dumps(told, sort_keys=True, default=str)
    return Ticket(key=key, digest=hashlib.sha256(written.encode()).hexdigest())


def replay(tx: Transaction, ticket: Ticket, *, look: Look) -> Remembered | None:
    """Give what this call was answered before; None when it was not made before.

    Raises:
        Refused: `idempotency_conflict`, the key was used for something else.

    """
    known = tx.records.reply(look.caller.agent, ticket.key)
    if known is None or known.at < look.now - timedelta(seconds=REPLY_KEPT_S):
        return None
    if known.digest != ticket.digest:
        raise Refused(
            "This idempotency key was used for another text.",
            code="idempotency_conflict",
            hint="Give every new call a key of its own; repeat one only with the same content.",
        )
    return _read(known.body)


def keep(tx: Transaction, ticket: Ticket, *, reply: Remembered, look: Look) -> None:
    """Keep an answer, and drop those that are too old to be asked for."""
    tx.records.drop_replies(before=look.now - timedelta(seconds=REPLY_KEPT_S))
    named = [id_ for one in reply.items for id_ in _named(one)]
    tx.records.keep_reply(
        Reply(
            agent=look.caller.agent,
            key=ticket.key,
            digest=ticket.digest,
            body=asdict(reply),
            memory_ids=tuple(ids.parse(ids.MEMORY, id_) for id_ in named if id_),
            at=look.now,
        )
    )


def _named(one: Outcome) -> list[str | None]:
    """Name every memory of which a reply tells a word: erasing any of them takes it with it."""
    beside = (*one.derived, *one.similar, *one.conflicts, *one.suggestions)
    return [one.id, *(told.id for told in beside)]


def _read(body: Mapping[str, Any]) -> Remembered:
    return Remembered(
        items=tuple(_outcome(one) for one in body["items"]),
        skipped=body["skipped"],
        unseated=_unseated(body.get("unseated")),
        stages_ms=body["stages_ms"],
    )


def _outcome(given: Mapping[str, Any]) -> Outcome:
    read: dict[str, Any] = {
        "status": Status(given["status"]),
        "kind": Kind(given["kind"]) if given["kind"] else None,
        "similar": tuple(Similar(**one) for one in given["similar"]),
        "conflicts": tuple(Similar(**one) for one in given["conflicts"]),
        "warnings": tuple(given["warnings"]),
        "derived": tuple(_part(one) for one in given["derived"]),
        "unseated": _unseated(given.get("unseated")),
        "suggestions": tuple(_suggestion(one) for one in given.get("suggestions", ())),
    }
    return Outcome(**{**given, **read})


def _part(given: Mapping[str, Any]) -> Part:
    read: dict[str, Any] = {
        "status": Status(given["status"]),
        "kind": Kind(given["kind"]) if given["kind"] else None,
    }
    return Part(**{**given, **read})


def _suggestion(given: Mapping[str, Any]) -> Suggestion:
    read: dict[str, Any] = {"how": Because(given["how"])}
    return Suggestion(**{**given, **read})


def _unseated(given: Mapping[str, Any] | None) -> Unseated | None:
    read: dict[str, Any] = {**given, "ids": tuple(given["ids"]), "first": ()} if given else {}
    return Unseated(**read) if read else None
