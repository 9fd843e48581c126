"""Changes that a person makes on the page: a form, its preview, its result and its undo."""

import base64
import hmac
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from starlette.datastructures import ImmutableMultiDict

from commonbrain.api.operations import Operation, load_operation
from commonbrain.model.errors import NotFoundError, RejectedError
from commonbrain.model.scope import Role
from commonbrain.model.timestamps import show_instant
from commonbrain.web.undoing import PLANNED, Undo, plan_undo
from commonbrain.web.visit import Visit, parse_request

OPERATIONS: Final = frozenset(
    {"revise", "forget", "message", "session", "job", "admin", "tenant", "model"}
)
"""The operations that forms of the page may run."""
CSRF_FIELD: Final = "csrf"
OWN_FIELDS: Final = frozenset({CSRF_FIELD, "next", "confirmed", "typed"})
"""Fields of a form that are not arguments of its operation."""
_UNDO_REASON: Final = "undone on the page"
_TYPED: Final = "erase"
"""What a person types to confirm that an erase cannot be undone."""
_NOTICE_CHARS_MAX: Final = 1_500
"""A cookie has at most 4 kB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What the last action did, shown once on the next page."""

    text: str
    undo: Mapping[str, str] | None = None
    """Fields of the form that undoes it; None if it cannot be undone."""
    undo_by: str = "forget"
    """The operation of that form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSecret:
    """A new key, shown in one response: it is in no cookie, log or address."""

    text: str = field(repr=False)
    prefix: str
    """The part by which the key is listed and revoked."""
    agent: str
    next: str
    """The page that the person came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """The preview of a change, which the person confirms."""

    operation: str
    purpose: str
    """What the change does; empty if the preview says it."""
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
    if name not in OPERATIONS:
        raise NotFoundError(f"No action {name[:40]!r}.", hint="Go back and use its button.")
    operation = load_operation(name)
    request = parse_request(operation.request, form)
    is_erase = getattr(request, "op", "") == "erase"
    is_confirmed = form.get("confirmed") == "yes" and (
        not is_erase or form.get("typed", "").strip().lower() == _TYPED
    )
    before = visit.now
    if operation.preview is not None and not is_confirmed and visit.can(operation.role):
        preview = operation.preview(visit.brain, request)
        if preview is not None:
            return _confirmation(operation, preview, form=form, is_erase=is_erase)
    is_planned = name in PLANNED and visit.can(operation.role)
    planned = plan_undo(visit.brain, name, request=request) if is_planned else None
    reply = visit.call(operation, request)
    expected = operation.expected_confirm(reply)
    if expected is not None:
        # The undo of a notice was not previewed; any other change whose preview is out of date is
        # shown again.
        if not (is_confirmed and getattr(request, "op", "") == "undo"):
            return _confirmation(operation, reply, form=form, is_erase=is_erase)
        reply = visit.call(operation, request.model_copy(update={"confirm": expected}))
    if operation.exit_code(reply):
        raise RejectedError(operation.render_text(reply), hint="Nothing was changed.")
    if (secret := getattr(reply, "secret", None)) is not None:
        [key] = reply.keys
        next_ = local_path(form.get("next", "/"))
        return NewSecret(text=secret, prefix=key.key, agent=key.agent, next=next_)
    text = operation.render_text(reply)[:_NOTICE_CHARS_MAX]
    if name in PLANNED:
        undo_by = planned.operation if planned else name
        return Notice(text=text, undo=_confirmed(planned), undo_by=undo_by)
    undo = (
        None if is_erase or not visit.can(Role.WRITER) else _undo(visit, since=show_instant(before))
    )
    return Notice(text=text, undo=undo)


def _confirmed(planned: Undo | None) -> Mapping[str, str] | None:
    return None if planned is None else {**planned.fields, "confirmed": "yes"}


def _undo(visit: Visit, *, since: str) -> Mapping[str, str]:
    """Return the form that reverts what the person changed since a time."""
    return {
        "op": "undo",
        "agent": visit.brain.caller.agent,
        "since": since,
        "until": show_instant(visit.now),
        "reason": _UNDO_REASON,
        "confirmed": "yes",
    }


def _confirmation(
    operation: Operation[Any, Any],
    preview: Any,  # noqa: ANN401 the operation's own reply
    *,
    form: ImmutableMultiDict[str, str],
    is_erase: bool,
) -> Confirmation:
    sent = [(name, value) for name, value in form.multi_items() if name not in OWN_FIELDS]
    count = operation.expected_confirm(preview)
    confirm = [] if count is None else [("confirm", str(count))]
    return Confirmation(
        operation=operation.name,
        purpose=_purpose(operation, form),
        text=operation.render_text(preview),
        fields=(*sent, *confirm, ("next", local_path(form.get("next", "/")))),
        needs_typing=is_erase,
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
    body = base64.urlsafe_b64encode(json.dumps(asdict(notice)).encode()).decode()
    return f"{body}.{_signature(body, key)}"


def read_notice(value: str, *, key: str) -> Notice | None:
    """Read a notice from a cookie; None if it was not made by `sign_notice`."""
    body, _, signature = value.partition(".")
    if not hmac.compare_digest(signature.encode(), _signature(body, key).encode()):
        return None
    return Notice(**json.loads(base64.urlsafe_b64decode(body)))


def _signature(body: str, key: str) -> str:
    return hmac.digest(key.encode(), body.encode(), "sha256").hex()
