"""The operation revise: every way to correct a memory behind one name."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from pydantic import Field

from commonbrain.api.errors import EXIT_REFUSED
from commonbrain.api.operation import UNSEEN, Command, Id, Moment, Name, Operation, Request
from commonbrain.api.operations.remember import render_item_result
from commonbrain.client import Brain
from commonbrain.history.change_plan import ChangeStatus, ReviseResult
from commonbrain.history.revise import Revise
from commonbrain.ingestion.result import ItemResult, ItemStatus
from commonbrain.ingestion.service import DraftFields
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import HANDFUL
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

_COMPLETIONS: Final = {
    ItemStatus.STORED: ChangeStatus.DONE,
    ItemStatus.QUARANTINED: ChangeStatus.PROPOSED,
}


class ReviseRequest(Request):
    """What to change in which memory; each op reads its own fields."""

    op: Op = Field(description="restore: holds again; resolve: beats other; review: still holds")
    id: Id
    text: str = Field(default="", description="supersede: what holds now; annotate: the note")
    reason: str = Field(default="", description="Why; kept")
    other: str | None = Field(default=None, description="mem_...")
    value: str | None = Field(
        default=None,
        description="rate: up, down; status: open, blocked, done, stale; ack: will_execute, "
        "already_done, not_relevant, deferred; link: derived_from, "
        "depends_on, supports, conflicts_with, causes, enables, precedes, correlates, relates_to, "
        "about; keep_both: projects A,B",
    )
    strength: float = Field(default=STRENGTH_DEFAULT, description="link: 0 to 1")
    tags: list[str] = Field(default=[], description="retag: add")
    untag: list[str] = Field(default=[], description="retag: remove")
    due_at: Moment = Field(default=None, description="status, ack deferred: ISO 8601")
    priority: Name = Field(default=None, description="low, medium, high")
    assignee: Name = None
    headline: str | None = None
    kind: Name = None
    source_ref: str | None = None
    version: int | None = Field(
        default=None,
        description="supersede, status: refuse where get tells another by now",
        json_schema_extra=UNSEEN,
    )
    dry_run: bool = Field(
        default=False,
        description="supersede: say what would need review, change nothing",
        json_schema_extra=UNSEEN,
    )
    inherit: list[Literal["pin", "skill"]] = Field(default=[], description="supersede: keep them")


_MOVES: Final = (
    ("done", "done", "Say that a task is done."),
    ("block", "blocked", "Say that a task cannot go on."),
    ("open", "open", "Say that a task is to be done again."),
)
"""Commands that move a task on."""

_Call = Callable[[Revise, ReviseRequest], ReviseResult]
_CALLS: Final[Mapping[str, _Call]] = {
    "restore": lambda revise, told: revise.restore(told.id, reason=told.reason),
    "keep_both": lambda revise, told: revise.keep_both(
        told.id,
        reason=told.reason,
        other=told.other,
        projects=told.value.split(",") if told.value else (),
    ),
    "resolve": lambda revise, told: revise.resolve(
        told.id, other=_needed(told, "other"), reason=told.reason
    ),
    "annotate": lambda revise, told: revise.annotate(told.id, told.text),
    "rate": lambda revise, told: revise.rate(told.id, _needed(told, "value")),
    "pin": lambda revise, told: revise.pin(told.id),
    "unpin": lambda revise, told: revise.unpin(told.id),
    "retag": lambda revise, told: revise.retag(told.id, add=told.tags, remove=told.untag),
    "link": lambda revise, told: revise.link(
        told.id,
        _needed(told, "other"),
        type=_needed(told, "value"),
        strength=told.strength,
        reason=told.reason or None,
    ),
    "unlink": lambda revise, told: revise.unlink(
        told.id, _needed(told, "other"), type=_needed(told, "value")
    ),
    "status": lambda revise, told: revise.status(
        told.id,
        _needed(told, "value"),
        due_at=told.due_at,
        priority=told.priority,
        assignee=told.assignee,
        reason=told.reason or None,
        version=told.version,
    ),
    "ack": lambda revise, told: revise.ack(
        told.id, _needed(told, "value"), reason=told.reason or None, until=told.due_at
    ),
    "approve": lambda revise, told: revise.approve(told.id, reason=told.reason),
    "reject": lambda revise, told: revise.reject(told.id, reason=told.reason),
    "review": lambda revise, told: revise.review(told.id, reason=told.reason),
}


def _needed(told: ReviseRequest, field: Literal["other", "value"]) -> Any:  # noqa: ANN401 judged later
    given = getattr(told, field)
    if not given:
        raise InvalidInputError(f"{told.op} needs {field}.", hint="See the tool's schema.")
    return given


def _handle(brain: Brain, request: ReviseRequest) -> ReviseResult:
    if request.op == "preview" or (request.op == "supersede" and request.dry_run):
        return _foretold(brain, request)
    if request.op != "supersede":
        return _CALLS[request.op](brain.revise, request)
    given = request.model_dump(
        include={"headline", "kind", "source_ref", "tags"}, exclude_defaults=True
    )
    outcome = brain.revise.supersede(
        request.id,
        request.text,
        reason=request.reason,
        inherit_pin="pin" in request.inherit,
        inherit_skill="skill" in request.inherit,
        version=request.version,
        **DraftFields(**given),
    )
    return _of(outcome, request)


def _foretold(brain: Brain, request: ReviseRequest) -> ReviseResult:
    return ReviseResult(
        id=request.id,
        action=Action.SUPERSEDE,
        status=ChangeStatus.DRY_RUN,
        affected=brain.revise.preview(request.id),
        hint="Nothing is changed yet.",
    )


def _weighty(brain: Brain, request: ReviseRequest) -> ReviseResult | None:
    """Give what a supersede would unseat, where that is much."""
    if request.op != "supersede" or request.dry_run:
        return None
    foretold = _foretold(brain, request)
    is_much = foretold.affected is not None and foretold.affected.count > HANDFUL
    return foretold if is_much else None


def _of(outcome: ItemResult, request: ReviseRequest) -> ReviseResult:
    return ReviseResult(
        id=outcome.id or request.id,
        action=Action.SUPERSEDE,
        status=_COMPLETIONS.get(outcome.status, ChangeStatus.REFUSED),
        outcome=outcome,
    )


def _tell(reply: ReviseResult) -> str:
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
    tell=_tell,
    exit_code=lambda reply: EXIT_REFUSED * (reply.status is ChangeStatus.REFUSED),
    role=Role.WRITER,
    positional=("op", "id", "text"),
    weighty=_weighty,
    commands=(
        *(
            Command(
                name=f"task {name}",
                purpose=purpose,
                preset={"op": "status", "value": status},
                fields=frozenset({"id", "reason", "version"}),
            )
            for name, status, purpose in _MOVES
        ),
        Command(
            name="task ack",
            purpose="Answer an action item: will_execute, already_done, not_relevant, deferred.",
            preset={"op": "ack"},
            fields=frozenset({"id", "value", "reason", "due_at"}),
            positional=("id", "value"),
            required=frozenset({"value"}),
        ),
    ),
)
