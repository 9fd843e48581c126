"""What a call must come past: role and scopes, rate, quota, boot; and what a refusal leaves."""

from typing import Any

from commonbrain.brain import Brain
from commonbrain.domain.errors import CommonbrainError, Limited, Refused
from commonbrain.domain.scope import Caller
from commonbrain.flows.house import House
from commonbrain.interfaces.operations.operation import Operation, Request
from commonbrain.ports.credentials import ADMITTING, AccessEntry


def let_in(house: House, caller: Caller) -> None:
    """Count a call before anything is read or written for it: a flood leaves one line a minute.

    Raises:
        Limited: `rate_limited`; nothing but the audit of access tells of it.

    """
    try:
        house.bounds.check_rate(caller)
    except Limited as error:
        note_refusal(ADMITTING, house, caller=caller, error=error)
        raise


def check_call(operation: Operation[Any, Any], brain: Brain, *, request: Request) -> None:
    """Let a call be made, or say why not; the cheapest is asked first.

    The rate comes before all this: where a caller is let in, and nothing is known of the call yet.

    Raises:
        Refused: `insufficient_role`, `scope_denied` or `boot_required`.
        Limited: `quota_exceeded`.

    """
    _check_role(operation, brain.caller)
    if operation.adds(request):
        brain.house.bounds.check_quota(brain.caller)
    _check_booted(operation, brain)


def note_refusal(action: str, house: House, *, caller: Caller, error: CommonbrainError) -> None:
    """Leave who was refused what and why to the audit of access: no word of the content."""
    house.refusals.note(
        caller.tenant,
        AccessEntry(
            at=house.clock.now(),
            action=action,
            code=error.code,
            agent=caller.agent,
            credential=caller.admission.credential if caller.admission else None,
            request_id=caller.request_id,
        ),
    )


def _check_role(operation: Operation[Any, Any], caller: Caller) -> None:
    if caller.role.covers(operation.role):
        return
    if caller.admission is not None and caller.admission.role.covers(operation.role):
        raise Refused(
            f"This key's scopes do not let it {operation.name}, which takes the role "
            f"{operation.role}.",
            code="scope_denied",
            hint="Use a key with wider scopes.",
        )
    raise Refused(
        f"Agent {caller.agent} is a {caller.role}; {operation.name} takes the role "
        f"{operation.role}.",
        code="insufficient_role",
        hint=f"Ask an admin for the role {operation.role}.",
    )


def _check_booted(operation: Operation[Any, Any], brain: Brain) -> None:
    admission = brain.caller.admission
    if admission is None or not admission.policy.is_boot_required or operation.is_first:
        return
    if not brain.session.has_booted():
        raise Refused(
            f"This tenant wants a session to boot before {operation.name}.",
            code="boot_required",
            hint="Call boot with your session first: it tells what binds you.",
        )
