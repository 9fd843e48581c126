"""How changes are undone: by a form that is made before, and restores what there was."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from commonbrain.api.operation import Operation
from commonbrain.api.operations.admin import AdminRequest
from commonbrain.api.operations.forget import ForgetRequest
from commonbrain.api.operations.job import JobRequest
from commonbrain.api.operations.message import MessageRequest
from commonbrain.api.operations.session import SessionRequest
from commonbrain.api.operations.tenant import TenantRequest
from commonbrain.client import Brain
from commonbrain.history.selection import BulkChangeResult
from commonbrain.model.jobs import FAILED
from commonbrain.model.parameters import POLICY_PARAMETERS
from commonbrain.model.scope import Policy, Role
from commonbrain.model.tasks import holder_of
from commonbrain.web.screens.parts import find_part
from commonbrain.web.visit import OperationForm

_REASON: Final = "undone on the page"


def _of_admin(brain: Brain, request: AdminRequest) -> Mapping[str, str] | None:
    match request.op:
        case "agent_set":
            name = request.agent or ""
            known = next((one for one in brain.govern.agents() if one.name == name), None)
            if known is None:
                return {"op": "agent_set", "agent": name, "disabled": "true"}
            return {
                "op": "agent_set",
                "agent": name,
                "role": known.role.value,
                "trust_default": known.trust_default.value,
                "trust_ceiling": known.trust_ceiling.value,
                "disabled": _flag(is_set=known.disabled_at is not None),
            }
        case "policy":
            changed = _policy_fields(brain.govern.policy(), request)
            return {"op": "policy", **changed} if changed else None
        case _:
            # The text of a key is shown once, and a revoked key never works again.
            return None


def _of_tenant(brain: Brain, request: TenantRequest) -> Mapping[str, str] | None:
    match request.op:
        case "suspend" | "resume":
            is_suspended = brain.tenants.get(request.name).suspended_at is not None
            return {"op": "suspend" if is_suspended else "resume", "name": request.name}
        case "policy":
            changed = _policy_fields(brain.tenants.get(request.name).policy, request)
            return {"op": "policy", "name": request.name, **changed} if changed else None
        case _:
            return None


def _of_job(brain: Brain, request: JobRequest) -> Mapping[str, str] | None:
    if request.op not in {"retry", "cancel"}:
        return None
    has_failed = brain.jobs.show(request.id or "").state in FAILED
    return {"op": "cancel" if has_failed else "retry", "id": request.id or ""}


def _policy_fields(policy: Policy, request: AdminRequest | TenantRequest) -> dict[str, str]:
    """Return the present values of the fields that a request changes."""
    present: dict[str, str] = {
        "boot_required": _flag(is_set=policy.is_boot_required),
        "auto_promote": _flag(is_set=policy.is_promotion_automatic),
        "audit_reads": _flag(is_set=policy.are_reads_audited),
        "retention": ",".join(policy.retention) or "none",
        "parameters": ",".join(_present_parameters(policy, request.parameters)),
        "key_calls_per_minute": str(policy.key_calls_per_minute or 0),
        "tenant_calls_per_minute": str(policy.tenant_calls_per_minute or 0),
        "memories_max": str(-1 if policy.memories_max is None else policy.memories_max),
    }
    given = request.model_dump(exclude_defaults=True)
    return {name: value for name, value in present.items() if name in given}


def _present_parameters(policy: Policy, changed: list[str]) -> list[str]:
    """Return `NAME=VALUE` for each changed parameter; without a value it is the server's."""
    values = dict(one.split("=", 1) for one in policy.parameters)
    names = dict.fromkeys(one.partition("=")[0].strip() for one in changed)
    return [f"{name}={values.get(name, '')}" for name in names if name in POLICY_PARAMETERS]


def _flag(*, is_set: bool) -> str:
    return "true" if is_set else "false"


def _of_session(brain: Brain, request: SessionRequest) -> Mapping[str, str] | None:
    if request.op not in {"claim", "release"}:
        return REVERSED.fields
    task = brain.get(request.id or "", bump=False).detail
    until = task.get("lease_until")
    is_over = not isinstance(until, datetime) or until <= brain.services.clock.now()
    is_own = not is_over and task.get("lease_holder") == holder_of(brain.caller)
    return {"op": "claim" if is_own else "release", "id": request.id or ""}


def _of_message(brain: Brain, request: MessageRequest) -> Mapping[str, str] | None:
    match request.op:
        case "thread" if request.status is None:
            return None
        case "thread":
            thread = brain.message.thread(request.thread or "")
            return {"op": "thread", "thread": thread.id, "status": thread.status}
        case "read" | "ack":
            return None
        case _:
            return REVERSED.fields


def _of_forget(_: Brain, request: ForgetRequest) -> Mapping[str, str] | None:
    return None if request.op == "erase" else REVERSED.fields


REVERSED: Final = OperationForm(operation="forget", fields={"op": "undo"})
"""Undone by reverting the changes of the call; `reversal` makes the form."""
REQUEST_FIELD: Final = "request"
"""The field of that form which names the call."""
_FORMS: Final[Mapping[str, Callable[[Brain, Any], Mapping[str, str] | None]]] = {
    "admin": _of_admin,
    "tenant": _of_tenant,
    "job": _of_job,
    "session": _of_session,
    "message": _of_message,
    "forget": _of_forget,
}
"""By operation, the fields that restore the present state; the others' changes are reverted."""


def undo_form(
    brain: Brain,
    operation: Operation[Any, Any],
    *,
    request: Any,  # noqa: ANN401 of the operation's own type
) -> OperationForm | None:
    """Return the form that restores what a change would replace: it is made before the change.

    None if the change cannot be undone, or the caller may not make it. A form that is the same
    after the change means that nothing was changed, except for `REVERSED`.
    """
    if not brain.caller.role.covers(operation.role):
        return None
    part = find_part(operation.name)
    fields_of = part.undo_fields if part else _FORMS.get(operation.name)
    fields = REVERSED.fields if fields_of is None else fields_of(brain, request)
    if fields is REVERSED.fields:
        return REVERSED if brain.caller.role.covers(Role.WRITER) else None
    return None if fields is None else OperationForm(operation=operation.name, fields=fields)


def reversal(brain: Brain) -> OperationForm:
    """Return the form that reverts the call of an identified brain."""
    fields = {
        "op": "undo",
        "agent": brain.caller.agent,
        "reason": _REASON,
        REQUEST_FIELD: brain.caller.request_id or "",
    }
    return OperationForm(operation="forget", fields=fields)


def revert(brain: Brain, request: ForgetRequest, *, request_id: str) -> BulkChangeResult:
    """Revert the changes of one call."""
    return brain.undo(
        reason=request.reason,
        agent=request.agent,
        request_id=request_id,
        confirm=request.confirm,
    )
