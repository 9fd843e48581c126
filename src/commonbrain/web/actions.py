"""Changes that a person makes on the page: a form, its preview, its result and its undo."""

import base64
import hmac
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final

from starlette.datastructures import ImmutableMultiDict

from commonbrain.api.operation import Operation, Request
from commonbrain.api.operations import load_operation
from commonbrain.model.errors import InvalidInputError, NotFoundError, RejectedError
from commonbrain.web.outcomes import (
    Done,
    NewSecret,
    Preview,
    describe_nothing,
    describe_outcome,
    describe_preview,
    is_reading,
    refusal,
)
from commonbrain.web.screens.parts import find_part
from commonbrain.web.settling import ReviewForm, is_open, plan_decision, read_item, what_happened
from commonbrain.web.undoing import REQUEST_FIELD, REVERSED, reversal, revert, undo_form
from commonbrain.web.visit import OperationForm, Visit, parse_request

OPERATIONS: Final = frozenset({"revise", "forget", "bulk", "message", "session", "job"})
"""The operations of the core that forms of the page may run."""
_OF_LISTS: Final = frozenset({"bulk", "forget"})
"""Operations whose refusal returns to the page, where the selected memories are."""
SETTLE: Final = "settle"
"""The action of a form that decides on an item of the review queue."""
CSRF_FIELD: Final = "csrf"
OWN_FIELDS: Final = frozenset({CSRF_FIELD, "next", "back", "confirmed", "typed", REQUEST_FIELD})
"""Fields of a form that are not arguments of its operation."""
_TYPED: Final = "erase"
"""What a person types to confirm that an erase cannot be undone."""
_NOTICE_BYTES_MAX: Final = 1_500
"""A cookie has at most 4 kB, of which its form of undo and base64 take more than half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What the last action did, shown once on the next page."""

    text: str
    subject: str = ""
    """The words of the text that link to what was changed; empty for none."""
    page: str | None = None
    """The page of what was changed."""
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
    purpose: str
    """What the change does; empty if the preview says it."""
    preview: Preview | None
    """What would change; None if the text alone says it."""
    text: str
    fields: tuple[tuple[str, str], ...]
    """The form's fields, to send again with the confirmation."""
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
            raise refusal(error) from error
        return Notice(text=str(refusal(error)), is_refusal=True)


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
            text=str(refusal(error)),
            back=local_path(form.get("back", "/")),
            is_refusal=True,
        )


def _run(
    visit: Visit, operation: Operation[Any, Any], *, form: ImmutableMultiDict[str, str]
) -> Notice | Confirmation | NewSecret:
    request = parse_request(operation.request, form)
    if is_reading(request):
        raise NotFoundError("This form changes nothing.", hint="Go back and use its button.")
    is_confirmed = _is_confirmed(request, form)
    if not is_confirmed and "confirm" in operation.request.model_fields:
        # Without the confirmation, a count alone shows the preview again.
        request = request.model_copy(update={"confirm": None})
    preview = None if is_confirmed else _preview(visit, operation, request=request)
    if preview is not None:
        return _ask(operation, preview, request=request, form=form)
    undo = undo_form(visit.brain, operation, request=request)
    visit = replace(visit, brain=visit.brain.identified())
    if request_id := form.get(REQUEST_FIELD):
        operation = replace(operation, handle=partial(revert, request_id=request_id))
    reply = visit.call(operation, request)
    expected = operation.expected_confirm(reply)
    if expected is not None:
        # The undo of a notice was not previewed; any other change whose preview is out of date is
        # shown again.
        if not (is_confirmed and getattr(request, "op", "") == "undo"):
            return _ask(operation, reply, request=request, form=form)
        reply = visit.call(operation, request.model_copy(update={"confirm": expected}))
    is_changed = getattr(reply, "status", None) != "unchanged"
    if undo is REVERSED:
        undo = reversal(visit.brain)
    elif undo is not None:
        is_changed = undo != undo_form(visit.brain, operation, request=request)
    done = Done(request=request, reply=reply, is_changed=is_changed, now=visit.now)
    return _notice(operation, done, undo=undo if is_changed else None, form=form)


def _preview(visit: Visit, operation: Operation[Any, Any], *, request: Request) -> object | None:
    if operation.preview is None or not visit.can(operation.role):
        return None
    return operation.preview(visit.brain, request)


def _is_confirmed(request: Request, form: ImmutableMultiDict[str, str]) -> bool:
    is_erase = getattr(request, "op", "") == "erase"
    is_typed = form.get("typed", "").strip().lower() == _TYPED
    return form.get("confirmed") == "yes" and (is_typed or not is_erase)


def _notice(
    operation: Operation[Any, Any],
    done: Done[Any, Any],
    *,
    undo: OperationForm | None,
    form: ImmutableMultiDict[str, str],
) -> Notice | NewSecret:
    """Make the notice of what was done, or return what is shown instead.

    Raises:
        RejectedError: it was refused.

    """
    part = find_part(operation.name)
    outcome = part.describe_outcome(done) if part else describe_outcome(operation.name, done)
    if operation.exit_code(done.reply):
        raise RejectedError(outcome.text, hint="Nothing was changed.")
    if outcome.secret is not None:
        return outcome.secret
    next_ = _corrected(done.request, done.reply, form=form)
    back = form.get("back") or (next_ and form["next"])
    return Notice(
        text=_shortened(outcome.text),
        subject=outcome.subject,
        page=outcome.page,
        undo={**undo.fields, "confirmed": "yes"} if undo else None,
        undo_operation=undo.operation if undo else "",
        back=local_path(back) if back else None,
        next=next_,
    )


def _corrected(
    request: Request,
    reply: Any,  # noqa: ANN401 the operation's own reply
    *,
    form: ImmutableMultiDict[str, str],
) -> str | None:
    """Return the page of the new text, if a memory was corrected on its page."""
    is_done = getattr(request, "op", "") == "supersede" and reply.status == "done"
    is_on_its_page = form.get("next", "").startswith("/memory/")
    return f"/memory/{reply.id}" if is_done and is_on_its_page else None


def _ask(
    operation: Operation[Any, Any],
    preview: Any,  # noqa: ANN401 the operation's own reply
    *,
    request: Request,
    form: ImmutableMultiDict[str, str],
) -> Notice | Confirmation:
    """Ask for the confirmation of a change, unless it would change nothing."""
    if (nothing := describe_nothing(preview)) is not None:
        return Notice(text=nothing, is_refusal=True)
    sent = [(name, value) for name, value in form.multi_items() if name not in OWN_FIELDS]
    count = operation.expected_confirm(preview)
    confirm = [] if count is None else [("confirm", str(count))]
    part = find_part(operation.name)
    described = (part.describe_preview if part else describe_preview)(request, preview)
    return Confirmation(
        operation=operation.name,
        purpose=_purpose(operation, form),
        preview=described,
        text="" if described else operation.render_text(preview),
        fields=(*sent, *confirm, *_places(form)),
        needs_typing=getattr(request, "op", "") == "erase",
    )


def _places(form: ImmutableMultiDict[str, str]) -> list[tuple[str, str]]:
    """Return the pages to go to after a change, and after its undo."""
    back = [("back", local_path(form["back"]))] if form.get("back") else []
    return [("next", local_path(form.get("next", "/"))), *back]


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


def _shortened(text: str) -> str:
    """Cut a text to what fits a cookie, whatever its alphabet."""
    return text.encode()[:_NOTICE_BYTES_MAX].decode(errors="ignore")


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
