"""Who may change what: the right to write a memory's scope, and at least its trust.

Who has the first and lacks the second may propose: the change is stored, quarantined, as a memory
that carries it, until somebody with the authority approves or rejects it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from commonbrain.model import ids
from commonbrain.model.errors import RejectedError
from commonbrain.model.memory import Memory
from commonbrain.model.revision import Action
from commonbrain.model.scope import Caller, Role, check_may_write
from commonbrain.model.scoring import confidence
from commonbrain.model.trust import Trust, granted

_KEY: Final = "proposal"
"""Where in its payload a memory carries the change it proposes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A proposed change of a memory; `arguments` are those of the operation, as JSON values."""

    op: Action
    id: int
    reason: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def payload(self) -> dict[str, object]:
        """Write it into the payload of the memory that carries it."""
        plain = {"op": str(self.op), "id": ids.show(ids.MEMORY, self.id), "reason": self.reason}
        return {_KEY: {**plain, "told": dict(self.arguments)}}


def proposal_of(memory: Memory) -> Proposal | None:
    """Read the change that a memory carries; None when it carries none."""
    if _KEY not in memory.payload:
        return None
    given = cast("Mapping[str, Any]", memory.payload[_KEY])
    return Proposal(
        op=Action(given["op"]),
        id=ids.parse(ids.MEMORY, given["id"]),
        reason=given["reason"],
        arguments=given["told"],
    )


def without_proposal(memory: Memory) -> dict[str, object]:
    """Give a memory's payload without the change it carried."""
    return {key: value for key, value in memory.payload.items() if key != _KEY}


def is_authorized(caller: Caller, memory: Memory) -> bool:
    """Say whether a memory is trusted no more than its changer."""
    return caller.trust_ceiling.weight >= memory.trust.weight


def intrinsic_trust(caller: Caller) -> Trust:
    """Give the trust of what a caller says without claiming any."""
    return granted(None, default=caller.trust_default, ceiling=caller.trust_ceiling)


def endorsed(memory: Memory, *, trust: Trust) -> Memory:
    """Give a memory that somebody vouches for: trusted as said, and no less sure than that is."""
    is_sourced = memory.source_ref is not None
    likely = confidence(memory.kind, memory.text, trust=trust, is_sourced=is_sourced)
    return replace(memory, trust=trust, confidence=max(memory.confidence, likely))


def check_may_resolve(caller: Caller, memory: Memory) -> None:
    """Let admins and trusted sources settle what awaits review, and authors withdraw their own.

    Raises:
        RejectedError: `insufficient_role`, `scope_denied` or `trust_override_denied`.

    """
    check_may_write(caller, memory.scope)
    is_senior = caller.role is Role.ADMIN or caller.trust_ceiling is Trust.TRUSTED_TOOL
    if caller.trust_ceiling is Trust.UNTRUSTED_WEB or not is_senior:
        raise RejectedError(
            f"{ids.show(ids.MEMORY, memory.id)} awaits an admin or a trusted source.",
            code="trust_override_denied",
            hint="Leave it to them; until then it is kept and not recalled.",
        )


def check_authorized(caller: Caller, memory: Memory) -> None:
    """Let a caller change what is trusted no more than itself.

    Raises:
        RejectedError: `trust_override_denied`.

    """
    if not is_authorized(caller, memory):
        raise RejectedError(
            f"{ids.show(ids.MEMORY, memory.id)} is trusted as {memory.trust}, the caller as "
            f"{caller.trust_ceiling}.",
            code="trust_override_denied",
            hint="Leave it to somebody with that trust, or annotate it.",
        )
