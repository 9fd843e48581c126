"""Changes that a person makes on the page: a form, its preview, its result and its undo."""

import base64
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from starlette.datastructures import ImmutableMultiDict

from commonbrain.api.operation import Operation, Request, VerbRequest
from commonbrain.api.operations import load_operation
from commonbrain.api.operations.forget import ForgetRequest
from commonbrain.api.operations.job import JobRequest
from commonbrain.api.operations.message import MessageRequest
from commonbrain.api.operations.session import SessionRequest
from commonbrain.client import Brain
from commonbrain.history.selection import BulkChangeResult
from commonbrain.model.errors import (
    CommonbrainError,
    InvalidInputError,
    NotFoundError,
    RejectedError,
)
from commonbrain.model.escaping import pluralize
from commonbrain.model.jobs import FAILED
from commonbrain.model.recall_result import HEADING
from commonbrain.model.scope import Role
from commonbrain.model.tasks import holder_of
from commonbrain.web.rendering import words_of
from commonbrain.web.screens.screen import NewSecret, find_part
from commonbrain.web.settling import ReviewForm, is_open, plan_decision, read_item, what_happened
from commonbrain.web.visit import OperationForm, Visit, parse_request

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


OPERATIONS: Final = frozenset({"revise", "forget", "bulk", "message", "session", "job"})
"""The operations of the core that forms of the page may run."""
_OF_LISTS: Final = frozenset({"bulk", "forget"})
"""Operations whose refusal returns to the page, where the selected memories are."""
SETTLE: Final = "settle"
"""The action of a form that decides on an item of the review queue."""
CSRF_FIELD: Final = "csrf"
OWN_FIELDS: Final = frozenset({CSRF_FIELD, "next", "back", "confirmed", "typed", REQUEST_FIELD})
"""Fields of a form that are not arguments of its operation."""
_NOTICE_BYTES_MAX: Final = 1_500
"""A cookie has at most 4 kB, of which its form of undo and base64 take more than half."""


_ERASE: Final = "erase"
_HINTS: Final[Mapping[str, str]] = {
    "action_items_pending": "The boot preview lists action items; answer them with brain task ack.",
    "already_superseded": "Open what holds now, and correct that.",
    "duplicate": "Write what differs, or open the other memory and correct that.",
    "exists": "Open it, and correct that.",
    "mid_chain": "Open what holds now, and change that.",
    "not_an_action_item": "Mark the task as done instead.",
    "not_current": "Open what holds now, restore it, or decide on it in the review queue.",
    "version_conflict": "Load the page again to see what was changed, then decide again.",
}
"""The next step on the page by the code of an error, whose own hint names the calls of an agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What the last action did, shown once on the next page."""

    text: str
    """The reply of the operation as text."""
    undo: Mapping[str, str] | None = None
    """Fields of the form that undoes it; None if it cannot be undone."""
    undo_operation: str = "forget"
    back: str | None = None
    """The page of what was changed, to which undo returns; None for the page that shows this."""
    next: str | None = None
    """The page to go to, if it is not the one that the form names."""
    is_refusal: bool = False
    """Whether nothing was changed; the page of the item shows it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """The preview of a change, which the person confirms."""

    operation: str
    question: str
    button: str
    purpose: str
    """What the command does that asks the same; empty if the question says it."""
    text: str
    """The preview as text."""
    fields: tuple[tuple[str, str], ...]
    """The form's fields, to send again with the confirmation."""
    is_dangerous: bool
    needs_typing: bool
    """Whether `erase` has to be typed."""


def run_action(
    visit: Visit, name: str, *, form: ImmutableMultiDict[str, str]
) -> Notice | Confirmation | NewSecret:
    """Run the operation of a form, or preview it if it asks for a confirmation.

    Raises:
        NotFoundError: there is no such operation.
        RejectedError: the operation refused the change; nothing was changed.
        CommonbrainError: raised by the operation.

    """
    if name == SETTLE:
        return _settle(visit, form)
    if name not in OPERATIONS and find_part(name) is None:
        raise NotFoundError(f"No action {name[:40]!r}.", hint="Go back and use its button.")
    try:
        return _run(visit, load_operation(name), form=form)
    except (InvalidInputError, RejectedError) as error:
        if name not in _OF_LISTS or not form.get("next"):
            raise _with_next_step(error) from error
        return Notice(text=str(_with_next_step(error)), is_refusal=True)


def _with_next_step(error: CommonbrainError) -> CommonbrainError:
    """Return an error with the next step of a person."""
    hint = _HINTS.get(error.code)
    return type(error)(error.message, code=error.code, hint=hint) if hint else error


def _settle(visit: Visit, form: ImmutableMultiDict[str, str]) -> Notice | Confirmation | NewSecret:
    """Carry out a decision on an item of the review queue, unless another person was faster."""
    given = ReviewForm.of(form)
    memories = read_item(visit, given.ids)
    if not is_open(given.category, memories):
        return Notice(text=f"{what_happened(visit, memories)} Nothing was changed.")
    decision = plan_decision(given, memories)
    places = [(name, form.get(name, "/")) for name in ("next", "back")]
    fields = ImmutableMultiDict([*decision.fields.items(), *places])
    try:
        return _run(visit, load_operation(decision.operation), form=fields)
    except (InvalidInputError, RejectedError) as error:
        memories = read_item(visit, given.ids)
        if not is_open(given.category, memories):
            # Another person decided after it was read.
            return Notice(text=f"{what_happened(visit, memories)} Nothing was changed.")
        return Notice(
            text=str(_with_next_step(error)),
            back=local_path(form.get("back", "/")),
            is_refusal=True,
        )


def _run(
    visit: Visit, operation: Operation[Any, Any], *, form: ImmutableMultiDict[str, str]
) -> Notice | Confirmation | NewSecret:
    request = parse_request(operation.request, form)
    if isinstance(request, VerbRequest) and request.verb.is_read_only:
        raise NotFoundError("This form changes nothing.", hint="Go back and use its button.")
    # Whoever erases types the word as well.
    is_typed = form.get("typed", "").strip().lower() == _ERASE
    is_confirmed = form.get("confirmed") == "yes" and (is_typed or _op(request) != _ERASE)
    if not is_confirmed:
        if "confirm" in operation.request.model_fields:
            # Without the confirmation, a count alone shows the preview again.
            request = request.model_copy(update={"confirm": None})
        previews = operation.preview if visit.can(operation.role) else None
        if previews and (preview := previews(visit.brain, request)) is not None:
            return _ask(operation, preview, request=request, form=form)
    brain = visit.brain.identified()
    undo = undo_form(brain, operation, request=request)
    reply = _carry_out(
        replace(visit, brain=brain),
        operation,
        request=request,
        form=form,
        is_confirmed=is_confirmed,
    )
    if isinstance(reply, Notice | Confirmation):
        return reply
    if operation.exit_code(reply):
        raise _refusal(operation, reply)
    is_changed = getattr(reply, "status", None) != "unchanged"
    if undo is REVERSED:
        undo = reversal(brain)
    elif undo is not None:
        is_changed = undo != undo_form(brain, operation, request=request)
    return _report(
        operation,
        request,
        reply=reply,
        form=form,
        undo=undo if is_changed else None,
        is_changed=is_changed,
    )


def _refusal(operation: Operation[Any, Any], reply: Any) -> RejectedError:  # noqa: ANN401 the operation's own
    """Return the error for a reply that refuses a change, with the next step of a person."""
    item = getattr(reply, "outcome", None)
    if item is None or item.reason is None:
        return RejectedError(operation.render_text(reply), hint=_UNCHANGED)
    code = item.code or str(item.status)
    where = f" It is {item.id}." if item.id else ""
    return RejectedError(item.reason + where, code=code, hint=_HINTS.get(code, _UNCHANGED))


def _carry_out(
    visit: Visit,
    operation: Operation[Any, Any],
    *,
    request: Request,
    form: ImmutableMultiDict[str, str],
    is_confirmed: bool,
) -> Any:  # noqa: ANN401 the operation's own reply
    """Run an operation and return its reply, or ask whether to go on with what it would change."""
    if request_id := form.get(REQUEST_FIELD):
        operation = replace(operation, handle=partial(revert, request_id=request_id))
    reply = visit.call(operation, request)
    expected = operation.expected_confirm(reply)
    if expected is None:
        return reply
    # The undo of a notice was not previewed; any other change whose preview is out of date is shown
    # again.
    if not (is_confirmed and _op(request) == "undo"):
        return _ask(operation, reply, request=request, form=form)
    return visit.call(operation, request.model_copy(update={"confirm": expected}))


_UNCHANGED: Final = "Nothing was changed."
_VERBS: Final[Mapping[str, str]] = {
    "retag": "Change the tags of",
    "review": "Confirm",
    "undo": "Undo the changes of",
}
"""What a button does, where the name of its verb does not say it to a person."""


def _op(request: Request) -> str:
    """Return the verb of a request; empty for an operation without verbs."""
    return getattr(request, "op", "")


def _report(
    operation: Operation[Any, Any],
    request: Request,
    *,
    reply: Any,  # noqa: ANN401 the operation's own
    form: ImmutableMultiDict[str, str],
    undo: OperationForm | None,
    is_changed: bool,
) -> Notice | NewSecret:
    """Make the notice of what was done, or return the key that is shown instead."""
    if (part := find_part(operation.name)) and (secret := part.new_secret(reply)):
        return secret
    lines = [line for line in operation.render_text(reply).splitlines() if line != HEADING]
    if _op(request) == _ERASE:
        # The further lines name what was erased, of which no copy may be left.
        lines = [*lines[:1], "No copy of the text is left."] if is_changed else lines[:1]
    text = "\n".join(lines if is_changed else [_UNCHANGED, *lines])
    is_corrected = _op(request) == "supersede" and reply.status == "done"
    is_on_its_page = form.get("next", "").startswith("/memory/")
    next_ = f"/memory/{reply.id}" if is_corrected and is_on_its_page else None
    back = form.get("back") or (next_ and form["next"])
    return Notice(
        text=_shortened(text),
        undo={**undo.fields, "confirmed": "yes"} if undo else None,
        undo_operation=undo.operation if undo else "",
        back=local_path(back) if back else None,
        next=next_,
    )


def _shortened(text: str) -> str:
    """Return as many whole lines as fit a cookie, whatever their alphabet, and how many follow."""
    if len(text.encode()) <= _NOTICE_BYTES_MAX:
        return text
    lines = text.splitlines()
    size, shown = 0, 0
    for line in lines:
        size += len(line.encode()) + 1
        if size > _NOTICE_BYTES_MAX:
            break
        shown += 1
    first = lines[0].encode()[:_NOTICE_BYTES_MAX].decode(errors="ignore")
    rest = f"and {pluralize(len(lines) - max(shown, 1), 'more line', many='more lines')}"
    return "\n".join([*(lines[:shown] or [f"{first}…"]), rest])


def _ask(
    operation: Operation[Any, Any],
    preview: Any,  # noqa: ANN401 the operation's own reply
    *,
    request: Request,
    form: ImmutableMultiDict[str, str],
) -> Notice | Confirmation:
    """Ask for the confirmation of a change, unless it would change nothing."""
    count = operation.expected_confirm(preview)
    if hasattr(preview, "hint"):
        # It names the call that an agent repeats.
        preview = replace(preview, hint=None)
    text = operation.render_text(preview)
    if getattr(preview, "count", None) == 0:
        return Notice(text=f"{_UNCHANGED}\n{text}", is_refusal=True)
    places = [("next", local_path(form.get("next", "/")))]
    places += [("back", local_path(form["back"]))] if form.get("back") else []
    verb = _VERBS.get(_op(request)) or words_of(_op(request)).capitalize()
    purpose = _purpose(operation, form)
    return Confirmation(
        operation=operation.name,
        question=(purpose or "Confirm")
        if count is None
        else f"{verb} {pluralize(count, 'memory', many='memories')}?",
        button="Confirm" if count is None else verb.split()[0],
        purpose="" if count is None else purpose,
        text=text,
        fields=(
            *((name, value) for name, value in form.multi_items() if name not in OWN_FIELDS),
            *([] if count is None else [("confirm", str(count))]),
            *places,
        ),
        is_dangerous=count is None or operation.is_destructive,
        needs_typing=_op(request) == _ERASE,
    )


def _purpose(operation: Operation[Any, Any], form: ImmutableMultiDict[str, str]) -> str:
    """Return the purpose of the command that does the same and asks, too."""
    for command in operation.commands:
        preset = {name: str(value).lower() for name, value in command.preset.items()}
        if command.needs_confirmation and all(form.get(one) == preset[one] for one in preset):
            return command.purpose
    return ""


def local_path(text: str) -> str:
    """Return a path on this server; the start page for anything else."""
    is_local = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if is_local else "/"


def sign_notice(notice: Notice, *, key: str) -> str:
    """Return a notice as the value of a cookie, which only a holder of the key can make."""
    body = base64.urlsafe_b64encode(
        json.dumps(asdict(notice), ensure_ascii=False).encode()
    ).decode()
    return f"{body}.{_signature(body, key)}"


def read_notice(value: str, *, key: str) -> Notice | None:
    """Read a notice from a cookie; None if it was not made by `sign_notice`."""
    body, _, signature = value.partition(".")
    if not hmac.compare_digest(signature.encode(), _signature(body, key).encode()):
        return None
    return Notice(**json.loads(base64.urlsafe_b64decode(body)))


def _signature(body: str, key: str) -> str:
    return hmac.digest(key.encode(), body.encode(), "sha256").hex()
