"""The operation forget, which also erases, prunes and undoes."""

from typing import Any, ClassVar, Literal

from commonbrain.api.errors import EXIT_REFUSED
from commonbrain.api.operation import (
    Command,
    Name,
    Operation,
    TimeBound,
    Verb,
    VerbRequest,
    argument,
)
from commonbrain.client import Brain
from commonbrain.history.selection import BulkChangeResult, MemoryRef, Phase, SelectorFields
from commonbrain.model.limits import CONFIRM_ABOVE
from commonbrain.model.scope import Role

_SELECTOR_FIELDS = (
    "agent",
    "session",
    "project",
    "kinds",
    "labels",
    "tags",
    "scope",
    "since",
    "until",
)
_COMMANDS = {
    "undo": "Undo the changes of an agent, a session or a period.",
    "erase": "Delete memories from the store permanently (admins only).",
    "prune": "Forget memories that were not read for long; rules, messages and pins stay.",
}


class ForgetRequest(VerbRequest):
    """The memories to remove, and the reason; a memory must match all given conditions."""

    SHARED = Verb(optional=("reason", "confirm"))
    VERBS: ClassVar = {
        "forget": Verb(optional=("ids", "dry_run", *_SELECTOR_FIELDS)),
        "erase": Verb(optional=("ids", *_SELECTOR_FIELDS)),
        "prune": Verb(optional=("days", "kinds")),
        "undo": Verb(optional=("agent", "session", "since", "until")),
    }
    SHOWN: ClassVar = ("op", "ids", "reason", "confirm")

    ids: list[str] = argument(
        "The id of a memory, mem_...; or give filters", [], agents="mem_...; or filters in details"
    )
    op: Literal["forget", "erase", "prune", "undo"] = argument(
        "erase: delete permanently; prune: unread ones; undo: revert changes", "forget"
    )
    reason: str = argument(
        "Why; the reason is stored. Required except for prune", "", agents="Why; not for prune"
    )
    confirm: int | None = argument(
        "The count that the preview shows", agents="The count from the preview"
    )
    agent: Name = None
    session: Name = None
    project: Name = None
    kinds: list[str] = argument("Only memories of this kind", [], agents="")
    labels: list[str] = argument("Only memories with this label", [], agents="")
    tags: list[str] = argument("Only memories with all of these tags", [], agents="")
    scope: Name = None
    since: TimeBound = None
    until: TimeBound = None
    dry_run: bool = argument(
        "Show what would be forgotten, and change nothing", default=False, agents=""
    )
    days: int | None = argument(
        "prune: not read for so many days, at least 30", agents="prune: at least 30"
    )


def _handle(brain: Brain, request: ForgetRequest) -> BulkChangeResult:
    fields: dict[str, Any] = request.model_dump(
        exclude={"op", "reason", "confirm"}, exclude_defaults=True
    )
    confirm, reason = request.confirm, request.reason
    match request.op:
        case "forget":
            dry_run = fields.pop("dry_run", False)
            matching = SelectorFields(**fields)
            return brain.forget(reason=reason, confirm=confirm, dry_run=dry_run, **matching)
        case "erase":
            return brain.erase(reason=reason, confirm=confirm, **SelectorFields(**fields))
        case "undo":
            return brain.undo(reason=reason, confirm=confirm, **fields)
        case "prune":
            return brain.prune(confirm=confirm, **fields)


def _preview(brain: Brain, request: ForgetRequest) -> BulkChangeResult | None:
    """Preview forgetting one memory if more than `CONFIRM_ABOVE` others depend on it."""
    if request.op != "forget" or len(request.ids) != 1 or request.dry_run:
        return None
    preview_result = _handle(brain, request.model_copy(update={"dry_run": True}))
    is_large = preview_result.affected is not None and preview_result.affected.count > CONFIRM_ABOVE
    return preview_result if is_large else None


def render_bulk_change(reply: BulkChangeResult) -> str:
    """Render the result or preview, with the first items of each list."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(reply.by_kind.items()))
    lines = [f"{reply.action} {reply.status}: {reply.count}" + (f" ({kinds})" if kinds else "")]
    lines += _render_list(reply.items, count=reply.count, mark="-")
    lines += _render_list(reply.skipped, count=reply.skipped_count, mark="- skipped")
    lines += _render_list(reply.dependents, count=reply.dependents_count, mark="- rests on them:")
    if reply.affected:
        lines.append(reply.affected.line())
    if reply.receipt:
        lines.append("receipt: " + ", ".join(f"{k} {v}" for k, v in reply.receipt.items()))
    if reply.is_more:
        lines.append("More match than one call can change.")
    return "\n".join([*lines, *([reply.hint] if reply.hint else [])])


def _render_list(items: tuple[MemoryRef, ...], *, count: int, mark: str) -> list[str]:
    why = {one.id: f" | {one.why}" if one.why else "" for one in items}
    lines = [f"{mark} {one.id} {one.headline}{why[one.id]}" for one in items]
    return [*lines, f"{mark} and {count - len(items)} more"] if count > len(items) else lines


FORGET = Operation(
    name="forget",
    title="Forget",
    purpose="Remove wrong or unwanted memories from recall, or undo an agent's changes. "
    "Several are previewed first: repeat with confirm. To correct one, use revise.",
    request=ForgetRequest,
    reply=BulkChangeResult,
    handle=_handle,
    render_text=render_bulk_change,
    role=Role.WRITER,
    positional=("ids",),
    preview=_preview,
    is_destructive=True,
    is_idempotent=True,
    exit_code=lambda reply: EXIT_REFUSED * (reply.status is Phase.PREVIEW and reply.count > 0),
    expected_confirm=lambda reply: reply.count if reply.status is Phase.PREVIEW else None,
    commands=tuple(
        Command(name=op, purpose=purpose, preset={"op": op}) for op, purpose in _COMMANDS.items()
    ),
)
