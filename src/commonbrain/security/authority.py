"""Authorization of changes: write access to the scope of a memory, its trust, and its authority.

A caller that has write access but too little trust, or a lower authority, may propose:
the change is stored as a quarantined memory until a caller with enough approves or rejects it.
What cannot be undone, or reaches far, is for people alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, cast

from commonbrain.model import ids
from commonbrain.model.errors import RejectedError
from commonbrain.model.kinds import (
    KINDS,
    Detail,
    Kind,
    MessageDetail,
    RuleDetail,
    Severity,
    TaskDetail,
    severity_of,
)
from commonbrain.model.limits import NAME_CHARS_MAX
from commonbrain.model.memory import Draft, Memory, State, confidence
from commonbrain.model.parameters import Parameters
from commonbrain.model.revision import Action
from commonbrain.model.scope import (
    NOBODYS_NAMES,
    Authority,
    Caller,
    Role,
    Scope,
    Trust,
    check_may_write,
    granted,
    lowest,
    who_may,
)
from commonbrain.model.tasks import must_be_acknowledged, needs_ack

_KEY: Final = "proposal"
"""Payload key of the proposed change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A proposed change of a memory; `arguments` are those of the operation, as JSON values."""

    op: Action
    id: int
    reason: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def payload(self) -> dict[str, object]:
        """Return the payload of the memory that carries the proposal."""
        plain = {"op": str(self.op), "id": ids.show(ids.MEMORY, self.id), "reason": self.reason}
        return {_KEY: {**plain, "told": dict(self.arguments)}}


def proposal_of(memory: Memory) -> Proposal | None:
    """Return the change that a memory proposes, or None."""
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
    """Return a memory's payload without its proposal."""
    return {key: value for key, value in memory.payload.items() if key != _KEY}


def is_authorized(caller: Caller, memory: Memory) -> bool:
    """Whether the caller has at least the trust and the authority of the memory."""
    return is_trusted(caller, memory) and caller.authority.covers(memory.authority)


def is_trusted(caller: Caller, memory: Memory) -> bool:
    """Whether the caller's trust is at least that of the memory."""
    return caller.trust_ceiling.weight >= memory.trust.weight


def authority_of(caller: Caller, *, trust: Trust, is_captured: bool) -> Authority:
    """Return the authority of a text: the caller's, unless it was captured or is untrusted."""
    if trust is Trust.UNTRUSTED_WEB:
        return Authority.WEB
    return lowest([caller.authority, *([Authority.CAPTURED] if is_captured else [])])


def author_agent(draft: Draft, caller: Caller) -> str:
    """Return the agent in whose name an imported draft is stored."""
    detail, name = draft.detail, draft.author
    # Agents address their messages; those of a chat are of speakers.
    if name is None and isinstance(detail, MessageDetail) and detail.recipients:
        name = detail.sender
    return agent_named(name, caller)


def agent_named(name: str | None, caller: Caller) -> str:
    """Return the agent of what a source says that a name wrote.

    An admin, who could give any agent a key, imports in the names of the authors; what others
    import is theirs, and so is what a model imports for an admin.
    """
    may_name = caller.role is Role.ADMIN and caller.authority.covers(Authority.MODEL)
    if not (may_name and name) or name in NOBODYS_NAMES:
        return caller.agent
    return name if name.isprintable() and len(name) <= NAME_CHARS_MAX else caller.agent


def awaits_person(kind: Kind, detail: Detail, *, scope: Scope, authority: Authority) -> bool:
    """Return whether a text would bind or reach more than its authority may without a person.

    A model may make rules, but no BLOCKER and no skill that is always shown, and nothing global;
    what was captured or comes from the web does not bind.
    """
    if authority is Authority.PERSON:
        return False
    skill = detail.skill if isinstance(detail, RuleDetail) else None
    is_always_shown = skill is not None and bool(skill.get("always_on"))
    if severity_of(detail) is Severity.BLOCKER or is_always_shown or scope is Scope.GLOBAL:
        return True
    binds = KINDS[kind].is_binding or must_be_acknowledged(detail)
    return binds and not authority.covers(Authority.MODEL)


def check_is_person(caller: Caller, what: str) -> None:
    """Check that a person makes a change that reaches far or cannot be undone; `what` names it.

    Raises:
        RejectedError: `person_required`; nothing was changed.

    """
    if caller.authority is not Authority.PERSON:
        raise RejectedError(
            f"{what} takes a person.",
            code="person_required",
            hint="Ask the user to do it on the page (`brain ui`) or in a terminal. "
            "A program that acts for its owner sets COMMONBRAIN_AS_OWNER=true.",
        )


def intrinsic_trust(caller: Caller) -> Trust:
    """Return the trust of a caller that claims none."""
    return granted(None, default=caller.trust_default, ceiling=caller.trust_ceiling)


def endorsed(
    memory: Memory, *, trust: Trust, authority: Authority, parameters: Parameters
) -> Memory:
    """Return the memory with this trust and the confidence it implies.

    A person's word gives it a person's authority; no other raises what it has.
    """
    is_sourced = memory.source_ref is not None
    likely = confidence(
        memory.kind, memory.text, trust=trust, is_sourced=is_sourced, parameters=parameters
    )
    return replace(
        memory,
        trust=trust,
        authority=authority if authority is Authority.PERSON else memory.authority,
        confidence=max(memory.confidence, likely),
    )


def approved(memory: Memory, caller: Caller, *, parameters: Parameters, now: datetime) -> Memory:
    """Return a pending memory as approved: with at least the trust of a person who approves it."""
    trust = max(memory.trust, intrinsic_trust(caller), key=lambda one: one.weight)
    return replace(
        endorsed(memory, trust=trust, authority=caller.authority, parameters=parameters),
        state=State.ACTIVE,
        believed_since=now,
        payload=without_proposal(memory),
    )


def check_may_resolve(caller: Caller, memory: Memory) -> None:
    """Let admins and trusted callers resolve a reviewed memory, and authors withdraw theirs.

    Raises:
        RejectedError: `insufficient_role`, `scope_denied` or `trust_override_denied`.

    """
    check_may_write(caller, memory.scope)
    is_senior = caller.role is Role.ADMIN or caller.trust_ceiling is Trust.TRUSTED_TOOL
    is_trusted = caller.trust_ceiling is not Trust.UNTRUSTED_WEB
    if not (is_senior and is_trusted and caller.authority is Authority.PERSON):
        raise RejectedError(
            f"{ids.show(ids.MEMORY, memory.id)} awaits a person: an admin or a trusted source.",
            code="trust_override_denied",
            hint="Ask the user: `brain review` in a terminal, or the page (`brain ui`). Until then "
            "it is stored and not recalled.",
        )


def check_authorized(caller: Caller, memory: Memory) -> None:
    """Check that the memory has no more trust or authority than the caller.

    Raises:
        RejectedError: `trust_override_denied`.

    """
    if not caller.authority.covers(memory.authority):
        raise RejectedError(
            f"{ids.show(ids.MEMORY, memory.id)} was written by a {memory.authority}; you act as a "
            f"{caller.authority}.",
            code="trust_override_denied",
            hint="Ask the user to do it, or annotate it.",
        )
    if not is_authorized(caller, memory):
        raise RejectedError(
            f"{ids.show(ids.MEMORY, memory.id)} is trusted as {memory.trust}, the caller as "
            f"{caller.trust_ceiling}.",
            code="trust_override_denied",
            hint="Ask a caller with that trust, or annotate it.",
        )


def check_may_bind_all(caller: Caller, before: Memory, *, after: Memory) -> None:
    """Check that only an admin makes a memory block the writers of every project.

    Raises:
        RejectedError: `scope_denied`.

    """
    if caller.role is not Role.ADMIN and _binds_all(after) and not _binds_all(before):
        raise RejectedError(
            f"{ids.show(ids.MEMORY, after.id)} has no project and must be acknowledged: to block "
            "the writers of every project needs the role admin.",
            code="scope_denied",
            hint=f"{who_may(caller, Role.ADMIN)} Or remember it for one project.",
        )


def _binds_all(memory: Memory) -> bool:
    """Return whether it is an open action item of every project."""
    is_shared = memory.project is None and memory.scope is not Scope.PRIVATE
    is_item = must_be_acknowledged(memory.detail) and is_shared
    is_done = isinstance(memory.detail, TaskDetail) and not needs_ack(memory.detail)
    return is_item and not is_done and memory.state is State.ACTIVE
