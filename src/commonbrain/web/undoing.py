"""How changes are undone: by a form that is made before, and restores what there was."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from commonbrain.api.operation import Operation
from commonbrain.api.operations.forget import ForgetRequest
from commonbrain.api.operations.job import JobRequest
from commonbrain.api.operations.message import MessageRequest
from commonbrain.api.operations.session import SessionRequest
from commonbrain.client import Brain
from commonbrain.history.selection import BulkChangeResult
from commonbrain.model.jobs import FAILED
from commonbrain.model.scope import Role
from commonbrain.model.tasks import holder_of
from commonbrain.web.screens.parts import find_part
from commonbrain.web.visit import OperationForm

_REASON: Final = "undone on the page"


def _of_job(brain: Brain, request: JobRequest) -> Mapping[str, str] | None:
    if request.op not in {"retry", "cancel"}:
        return None
    has_failed = brain.jobs.show(request.id or "").state in FAILED
    return {"op": "cancel" if has_failed else "retry", "id": request.id or ""}


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
