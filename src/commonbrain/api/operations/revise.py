"""The operation revise: correct, mark and link memories."""

from collections.abc import Callable, Mapping
from typing import ClassVar, Final, Literal, cast

from pydantic import Field

from commonbrain.api.errors import EXIT_REFUSED
from commonbrain.api.operation import (
    Attachment,
    Command,
    Id,
    Name,
    Operation,
    Timestamp,
    Verb,
    VerbRequest,
    argument,
)
from commonbrain.api.operations.remember import render_item_result
from commonbrain.client import Brain
from commonbrain.history.change_plan import ChangeStatus, ReviseResult
from commonbrain.history.revise import Revise
from commonbrain.ingestion.result import ItemResult, ItemStatus
from commonbrain.ingestion.service import DraftFields
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import CONFIRM_ABOVE
from commonbrain.model.links import STRENGTH_DEFAULT
from commonbrain.model.revision import Action
from commonbrain.model.scope import Role

Op = Literal[
    "supersede",
    "restore",
    "keep_both",
    "resolve",
    "annotate",
    "rate",
    "pin",
    "unpin",
    "retag",
    "link",
    "unlink",
    "status",
    "ack",
    "approve",
    "reject",
    "review",
    "preview",
]

_CHANGE_STATUSES: Final = {
    ItemStatus.STORED: ChangeStatus.DONE,
    ItemStatus.QUARANTINED: ChangeStatus.PROPOSED,
}


_REASONED: Final = Verb(optional=("reason",))


class ReviseRequest(VerbRequest):
    """The memory, the verb and its arguments."""

    SHARED = Verb(required=("id",))
    VERBS: ClassVar = {
        "supersede": Verb(
            optional=(
                *("text", "reason", "headline", "kind", "source_ref", "tags"),
                *("cites", "version", "dry_run", "inherit", "attachment"),
            )
        ),
        "restore": _REASONED,
        "keep_both": Verb(optional=("reason", "other", "value")),
        "resolve": Verb(required=("other",), optional=("reason",)),
        "annotate": Verb(optional=("text",)),
        "rate": Verb(required=("value",)),
        "pin": Verb(),
        "unpin": Verb(),
        "retag": Verb(optional=("tags", "untag")),
        "link": Verb(required=("other", "value"), optional=("strength", "reason")),
        "unlink": Verb(required=("other", "value")),
        "status": Verb(
            required=("value",), optional=("due_at", "priority", "assignee", "reason", "version")
        ),
        "ack": Verb(required=("value",), optional=("reason", "due_at")),
        "approve": _REASONED,
        "reject": _REASONED,
        "review": _REASONED,
        "preview": Verb(is_read_only=True),
    }
    SHOWN: ClassVar = ("op", "id", "text", "reason", "value", "other")

    op: Op = Field(description="restore: holds again; resolve: beats other; review: still holds")
    id: Id
    text: str = argument("supersede: what holds now; annotate: the note", "")
    reason: str = argument("Why you change it; the reason is stored", "", agents="Why; stored")
    other: str | None = argument("The id of the other memory, mem_...", agents="")
    value: str | None = argument(
        "rate: up, down; status: open, blocked, done, stale; ack: will_execute, "
        "already_done, not_relevant, deferred, withdraw; link: derived_from, "
        "depends_on, supports, conflicts_with, causes, enables, precedes, correlates, relates_to, "
        "about; keep_both: projects A,B"
    )
    strength: float = argument("link: how strong it is, from 0 to 1", STRENGTH_DEFAULT, agents="")
    tags: list[str] = argument("retag: a tag to add", [], agents="")
    untag: list[str] = argument("retag: a tag to remove", [], agents="")
    due_at: Timestamp = argument("status, ack deferred: ISO 8601", agents="")
    priority: Name = argument("status: low, medium or high", agents="")
    assignee: Name = None
    headline: str | None = None
    kind: Name = None
    source_ref: str | None = None
    cites: list[str] = argument(
        "supersede: path:line or path#symbol, in place of what the old one cites", [], agents=""
    )
    version: int | None = argument(
        "supersede, status: refuse unless this is the version", agents=""
    )
    dry_run: bool = argument("supersede: preview, change nothing", default=False, agents="")
    inherit: list[Literal["skill"]] = argument("supersede: keep it", [], agents="")
    attachment: Attachment = argument("supersede: replaces that of the old one", {}, agents=None)


_TASK_UPDATES: Final = (
    ("done", "done", "Mark a task as done."),
    ("block", "blocked", "Mark a task as blocked."),
    ("open", "open", "Reopen a task."),
)
"""Commands that change the status of a task."""

_IDS_MAX: Final = 100
"""Action items, or pending texts, that one call answers."""


def _ids_in(text: str) -> list[str]:
    """Return the ids of a text, which are divided by commas."""
    each = [ids.show(ids.MEMORY, ids.parse(ids.MEMORY, one)) for one in text.split(",")]
    if len(each) > _IDS_MAX:
        raise InvalidInputError(
            f"{len(each)} ids were given; {_IDS_MAX} are allowed.", hint="Answer them in parts."
        )
    return each


_Call = Callable[[Revise, ReviseRequest], ReviseResult]
_CALLS: Final[Mapping[str, _Call]] = {
    "restore": lambda revise, request: revise.restore(request.id, reason=request.reason),
    "keep_both": lambda revise, request: revise.keep_both(
        request.id,
        reason=request.reason,
        other=request.other,
        projects=request.value.split(",") if request.value else (),
    ),
    "resolve": lambda revise, request: revise.resolve(
        request.id, other=request.other or "", reason=request.reason
    ),
    "annotate": lambda revise, request: revise.annotate(request.id, request.text),
    "rate": lambda revise, request: revise.rate(
        request.id, cast("Literal['up', 'down']", request.value)
    ),
    "pin": lambda revise, request: revise.pin(request.id),
    "unpin": lambda revise, request: revise.unpin(request.id),
    "retag": lambda revise, request: revise.retag(
        request.id, add=request.tags, remove=request.untag
    ),
    "link": lambda revise, request: revise.link(
        request.id,
        request.other or "",
        type=request.value or "",
        strength=request.strength,
        reason=request.reason or None,
    ),
    "unlink": lambda revise, request: revise.unlink(
        request.id, request.other or "", type=request.value or ""
    ),
    "status": lambda revise, request: revise.status(
        request.id,
        request.value or "",
        due_at=request.due_at,
        priority=request.priority,
        assignee=request.assignee,
        reason=request.reason or None,
        version=request.version,
    ),
    "ack": lambda revise, request: revise.ack(
        _ids_in(request.id),
        request.value or "",
        reason=request.reason or None,
        until=request.due_at,
    ),
    "approve": lambda revise, request: revise.approve(_ids_in(request.id), reason=request.reason),
    "reject": lambda revise, request: revise.reject(_ids_in(request.id), reason=request.reason),
    "review": lambda revise, request: revise.review(request.id, reason=request.reason),
}


def _handle(brain: Brain, request: ReviseRequest) -> ReviseResult:
    if request.op == "preview" or (request.op == "supersede" and request.dry_run):
        return _dry_run(brain, request)
    if request.op != "supersede":
        return _CALLS[request.op](brain.revise, request)
    fields = request.model_dump(
        include={"headline", "kind", "source_ref", "tags", "cites", "attachment"},
        exclude_defaults=True,
    )
    outcome = brain.revise.supersede(
        request.id,
        request.text,
        reason=request.reason,
        inherit_skill="skill" in request.inherit,
        version=request.version,
        **DraftFields(**fields),
    )
    return _to_result(outcome, request)


def _dry_run(brain: Brain, request: ReviseRequest) -> ReviseResult:
    return ReviseResult(
        id=request.id,
        action=Action.SUPERSEDE,
        status=ChangeStatus.DRY_RUN,
        affected=brain.revise.preview(request.id),
        hint="Nothing is changed yet.",
    )


def _preview(brain: Brain, request: ReviseRequest) -> ReviseResult | None:
    """Preview a supersede if more than `CONFIRM_ABOVE` memories depend on the old one."""
    if request.op != "supersede" or request.dry_run:
        return None
    preview_result = _dry_run(brain, request)
    is_large = preview_result.affected is not None and preview_result.affected.count > CONFIRM_ABOVE
    return preview_result if is_large else None


def _to_result(outcome: ItemResult, request: ReviseRequest) -> ReviseResult:
    return ReviseResult(
        id=outcome.id or request.id,
        action=Action.SUPERSEDE,
        status=_CHANGE_STATUSES.get(outcome.status, ChangeStatus.REFUSED),
        outcome=outcome,
    )


def _render(reply: ReviseResult) -> str:
    if reply.outcome is not None:
        return render_item_result(reply.outcome)
    line = f"{reply.action} {reply.status} {reply.id}: {reply.headline or ''}".rstrip(": ")
    affected = [reply.affected.line()] if reply.affected else []
    return "\n".join([line, *reply.changed, *affected, *([reply.hint] if reply.hint else [])])


REVISE = Operation(
    name="revise",
    title="Revise",
    purpose="Correct a memory: a newer text supersedes it, the old stays readable. Or mark, "
    "link, restore it; or settle what is quarantined.",
    request=ReviseRequest,
    reply=ReviseResult,
    handle=_handle,
    render_text=_render,
    exit_code=lambda reply: EXIT_REFUSED * (reply.status is ChangeStatus.REFUSED),
    role=Role.WRITER,
    positional=("op", "id", "text"),
    preview=_preview,
    commands=(
        *(
            Command(
                name=f"task {name}",
                purpose=purpose,
                preset={"op": "status", "value": status},
                fields=frozenset({"id", "reason", "version"}),
            )
            for name, status, purpose in _TASK_UPDATES
        ),
        Command(
            name="task ack",
            purpose="Answer an action item: will_execute, already_done, not_relevant, deferred; or "
            "withdraw it.",
            preset={"op": "ack"},
            fields=frozenset({"id", "value", "reason", "due_at"}),
            positional=("id", "value"),
            required=frozenset({"value"}),
        ),
    ),
)
