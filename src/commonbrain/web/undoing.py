"""How changes are undone: by forms that are planned before the change is made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from commonbrain.api.operation import Operation
from commonbrain.api.operations.admin import AdminRequest
from commonbrain.api.operations.forget import ForgetRequest
from commonbrain.api.operations.job import JobRequest
from commonbrain.api.operations.message import MessageRequest
from commonbrain.api.operations.model import ModelRequest
from commonbrain.api.operations.session import SessionRequest
from commonbrain.api.operations.tenant import TenantRequest
from commonbrain.client import Brain
from commonbrain.history.selection import BulkChangeResult
from commonbrain.model.parameters import POLICY_PARAMETERS
from commonbrain.model.scope import Policy, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """The form that undoes a change."""

    operation: str
    fields: Mapping[str, str]


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
            other = "resume" if request.op == "suspend" else "suspend"
            return {"op": other, "name": request.name}
        case "policy":
            changed = _policy_fields(brain.tenants.get(request.name).policy, request)
            return {"op": "policy", "name": request.name, **changed} if changed else None
        case _:
            return None


def _of_job(_: Brain, request: JobRequest) -> Mapping[str, str] | None:
    other = {"retry": "cancel", "cancel": "retry"}.get(request.op)
    return {"op": other, "id": request.id or ""} if other else None


def _of_model(_: Brain, request: ModelRequest) -> Mapping[str, str] | None:
    if request.op != "canary":
        # A rollback is final, and what a promotion replaced is back only after one.
        return None
    return {"op": "retire", "id": request.id or "", "reason": "undone on the page"}


def _policy_fields(before: Policy, request: AdminRequest | TenantRequest) -> dict[str, str]:
    """Return the earlier values of the fields that a request changes."""
    earlier: dict[str, str] = {
        "boot_required": _flag(is_set=before.is_boot_required),
        "auto_promote": _flag(is_set=before.is_promotion_automatic),
        "audit_reads": _flag(is_set=before.are_reads_audited),
        "retention": ",".join(before.retention) or "none",
        "parameters": ",".join(_earlier_parameters(before, request.parameters)),
        "key_calls_per_minute": str(before.key_calls_per_minute or 0),
        "tenant_calls_per_minute": str(before.tenant_calls_per_minute or 0),
        "memories_max": str(-1 if before.memories_max is None else before.memories_max),
    }
    given = request.model_dump(exclude_defaults=True)
    return {name: value for name, value in earlier.items() if name in given}


def _earlier_parameters(before: Policy, changed: list[str]) -> list[str]:
    """Return `NAME=VALUE` for each changed parameter; without a value it is the server's."""
    values = dict(one.split("=", 1) for one in before.parameters)
    names = dict.fromkeys(one.partition("=")[0].strip() for one in changed)
    return [f"{name}={values.get(name, '')}" for name in names if name in POLICY_PARAMETERS]


def _flag(*, is_set: bool) -> str:
    return "true" if is_set else "false"


def _of_session(_: Brain, request: SessionRequest) -> Mapping[str, str] | None:
    other = {"claim": "release", "release": "claim"}.get(request.op)
    return {"op": other, "id": request.id or ""} if other else REVERSED.fields


def _of_message(_: Brain, request: MessageRequest) -> Mapping[str, str] | None:
    match request.op:
        case "thread":
            status = "open" if request.status == "closed" else "closed"
            return {"op": "thread", "thread": request.thread or "", "status": status}
        case "read" | "ack":
            return None
        case _:
            return REVERSED.fields


def _of_forget(_: Brain, request: ForgetRequest) -> Mapping[str, str] | None:
    return None if request.op == "erase" else REVERSED.fields


REVERSED: Final = Undo(operation="forget", fields={"op": "undo"})
"""Undone by reverting the changes of the call; `reversal` makes the form."""
REQUEST_FIELD: Final = "request"
"""The field of that form which names the call."""
_REASON: Final = "undone on the page"
_PLANS: Final[Mapping[str, Callable[[Brain, Any], Mapping[str, str] | None]]] = {
    "admin": _of_admin,
    "tenant": _of_tenant,
    "job": _of_job,
    "model": _of_model,
    "session": _of_session,
    "message": _of_message,
    "forget": _of_forget,
}
"""By operation; the changes of all others are reverted."""


def plan_undo(
    brain: Brain,
    operation: Operation[Any, Any],
    *,
    request: Any,  # noqa: ANN401 of the operation's own type
) -> Undo | None:
    """Return how a change will be undone, read before it is made.

    None if it cannot be undone, or the caller may not make it.
    """
    if not brain.caller.role.covers(operation.role):
        return None
    plan = _PLANS.get(operation.name)
    fields = REVERSED.fields if plan is None else plan(brain, request)
    if fields is REVERSED.fields:
        return REVERSED if brain.caller.role.covers(Role.WRITER) else None
    return None if fields is None else Undo(operation=operation.name, fields=fields)


def reversal(brain: Brain) -> Undo:
    """Return the form that reverts the call of an identified brain."""
    fields = {
        "op": "undo",
        "agent": brain.caller.agent,
        "reason": _REASON,
        REQUEST_FIELD: brain.caller.request_id or "",
    }
    return Undo(operation="forget", fields=fields)


def revert(brain: Brain, request: ForgetRequest, *, request_id: str) -> BulkChangeResult:
    """Revert the changes of one call."""
    return brain.undo(
        reason=request.reason,
        agent=request.agent,
        request_id=request_id,
        confirm=request.confirm,
    )
