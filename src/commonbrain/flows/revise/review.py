"""Review: what awaits somebody's judgement is approved or rejected."""

from __future__ import annotations

from dataclasses import replace

from commonbrain.domain.authority import (
    Proposal,
    check_entitled,
    check_may_settle,
    own_trust,
    proposal_of,
    vouched,
    without_proposal,
)
from commonbrain.domain.errors import Refused
from commonbrain.domain.memory import AWAITING_STATES, Memory, State
from commonbrain.domain.scope import Role, check_may_write
from commonbrain.domain.trust import Trust
from commonbrain.flows.act import Act
from commonbrain.flows.revise.plan import Amend, Plan, show


def rejected(act: Act, memory: Memory) -> Plan:
    """Forget what awaits review; its author may withdraw it too."""
    _check_awaits(memory)
    is_own = memory.agent == act.caller.agent and act.caller.role is not Role.READER
    if not is_own:
        check_may_settle(act.caller, memory)
    else:
        check_may_write(act.caller, memory.scope)
    gone = replace(memory, state=State.FORGOTTEN)
    return Plan(steps=(Amend(before=memory, after=gone),))


def check_approval(act: Act, memory: Memory) -> Proposal | None:
    """Let somebody approve, and give the change that is proposed, if any.

    Raises:
        Refused: the memory awaits nothing, or the caller lacks the authority.

    """
    _check_awaits(memory)
    check_may_settle(act.caller, memory)
    wanted = proposal_of(memory)
    if wanted is not None:
        target = act.fetch(wanted.id)
        check_may_write(act.caller, target.scope)
        check_entitled(act.caller, target)
    return wanted


def activated(act: Act, memory: Memory, *, at_least: Trust | None = None) -> Memory:
    """Give an approved memory: who approves a text vouches for it, with the trust of its own.

    `at_least` is what the text takes the place of, which nothing trusted less may replace.
    """
    those = (memory.trust, own_trust(act.caller), *([at_least] if at_least else []))
    trust = max(those, key=lambda one: one.weight)
    return replace(
        vouched(memory, trust=trust),
        state=State.ACTIVE,
        believed_since=act.now,
        payload=without_proposal(memory),
    )


def settled(memory: Memory) -> Memory:
    """Give the task that carried a proposal as it is once that is carried out."""
    return replace(memory, state=State.FORGOTTEN)


def _check_awaits(memory: Memory) -> None:
    if memory.state not in AWAITING_STATES:
        raise Refused(
            f"{show(memory)} is {memory.state}: it awaits no review.",
            code="not_awaiting",
            hint="Browse what does: recall without a query, states quarantined and candidate.",
        )
