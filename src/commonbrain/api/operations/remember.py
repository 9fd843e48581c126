"""The operation remember."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Self

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    WrapValidator,
    create_model,
    model_validator,
)

from commonbrain.api.errors import EXIT_REFUSED
from commonbrain.api.operation import (
    Attachment,
    Command,
    Name,
    Operation,
    Profile,
    Request,
    Timestamp,
    argument,
    for_agents,
)
from commonbrain.client import Brain
from commonbrain.ingestion.result import ItemResult, ItemStatus, RememberResult
from commonbrain.ingestion.service import DraftFields, check_item_count, draft_of
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kind_columns import settable_columns
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import ITEMS_PER_CALL_MAX
from commonbrain.model.memory import Draft
from commonbrain.model.scope import Role


class _RememberItem(Request):
    """A text to remember; a field of another kind than the text's is an error."""

    SHOWN: ClassVar = (
        *("text", "kind", "headline", "label", "project", "scope", "tags", "people"),
        *("trust", "source_ref", "occurred_at", "severity", "items"),
    )

    text: str = argument(
        "One self-contained statement; paragraphs are split into several memories",
        "",
        agents="One self-contained statement; paragraphs are split",
    )
    kind: Name = argument(
        "rule, fact, incident, task, event, episode, atom, message; default: from the text",
        agents="rule, fact, incident, task, event, episode, atom, message",
    )
    headline: str | None = argument(
        "A headline of at most 15 words; by default it is taken from the text",
        agents="Max 15 words",
    )
    label: Name = argument("The sort of statement, such as decision or bug", agents="decision, bug")
    project: Name = argument(
        "The project that it belongs to; by default that of the session, if it has one; "
        "a preference of the user belongs to every project",
        agents="Default: the session's; a user's preference: all",
    )
    scope: Name = argument(
        "Who may see it: private, team or global", agents="private, team, global"
    )
    tags: list[str] = argument("A keyword to find it by", [], agents="")
    trust: Name = argument(
        "How far to trust it: user_claim or untrusted_web", agents="user_claim or untrusted_web"
    )
    source_ref: str | None = argument("Where it comes from: a URL, or a file and line", agents="")
    cites: list[str] = argument(
        "Code that it is about: path:line, path:line-line or path#symbol",
        [],
        agents="path:line or path#name",
    )
    derived_from: list[str] = argument("The id of a memory that it was made from", [], agents="")
    depends_on: list[str] = argument(
        "The id of a memory that must hold for this one to hold", [], agents=""
    )
    occurred_at: Timestamp = argument(
        "When it happened, as an ISO 8601 date or time", agents="ISO 8601"
    )
    expires_at: Timestamp = argument(
        "When it stops being valid, as an ISO 8601 date or time", agents="ISO 8601"
    )
    people: list[str] = argument("The name of a person that it is about", [], agents="")
    confidence: float | None = argument("How sure you are, from 0 to 1", agents="")
    extract_tasks: bool = argument(
        "Store the tasks that the text states as well", default=False, agents=""
    )
    extract_causes: bool = argument(
        "Store the causes that the text states as well", default=False, agents=""
    )
    distinct_because: str | None = argument(
        "Store it although another memory says the same, for this reason", agents=""
    )
    attachment: Attachment = argument(
        "An object that get returns exactly; it is not searched", {}, agents=None
    )

    skill_name: Name = argument("rule: makes it a skill of this name", agents="of a rule")
    keywords: list[str] = argument("skill: words that trigger it", [], agents="")
    skill_projects: list[str] = argument("skill: projects it applies to", [], agents="")
    always_on: bool = argument("skill: shown at every boot", default=False, agents="")


def _column_fields() -> dict[str, Any]:
    """Make a field of each column that a caller may set, described by the kinds that have it."""
    fields: dict[str, Any] = {}
    for column in settable_columns():
        kinds = ", ".join(column.kinds)
        described = f"{kinds}: {column.purpose}"
        short = "" if column.for_agents is None else f"{kinds}: {column.for_agents}".rstrip(": ")
        fields[column.name] = (
            _TYPES.get(column.value_type, str | None if column.is_long else Name),
            Field(
                default=False if column.value_type is bool else None,
                description=described,
                json_schema_extra=None if short == described else for_agents(short),
            ),
        )
    return fields


_TYPES: Final[Mapping[type, Any]] = {
    bool: bool,
    int: int | None,
    float: float | None,
    datetime: Timestamp,
}
"""The types of fields of columns; of all others, texts."""

if TYPE_CHECKING:
    RememberItem = _RememberItem
else:
    RememberItem = create_model(
        "RememberItem", __base__=_RememberItem, __doc__=_RememberItem.__doc__, **_column_fields()
    )


class InvalidItem(RememberItem):
    """An item that is not valid, and the reason."""

    reason: str
    hint: str


def _item_or_reason(value: object, validate: ModelWrapValidatorHandler[RememberItem]) -> Any:  # noqa: ANN401
    try:
        return validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "item"
        return InvalidItem(
            reason=f"{where}: {first['msg']}.", hint="Correct this item and send it again."
        )
    except InvalidInputError as error:
        return InvalidItem(reason=error.message, hint=error.hint)


Item = Annotated[RememberItem, WrapValidator(_item_or_reason)]
"""An item; an invalid one is refused by itself and leaves the others alone."""


class RememberRequest(RememberItem):
    """One text, or several items; the other fields are the default of each item."""

    items: list[Item] = argument(
        f"Up to {ITEMS_PER_CALL_MAX} objects with these fields, instead of text; "
        "each has its own result",
        [],
        agents="Up to 100 like this, not text",
    )
    idempotency_key: Name = argument(
        "A key for this call: repeated within a day, it returns the first reply", agents=""
    )

    @model_validator(mode="after")
    def _check_text(self) -> Self:
        fields = self.model_dump(include={"subject", "outcome"}, exclude_defaults=True)
        has_fields = self.kind == Kind.ATOM and any(fields.values())
        has_text = "text" in self.model_fields_set or (has_fields and not self.items)
        if has_text == bool(self.items):
            problem = "text and items exclude each other" if has_text else "text is missing"
            raise InvalidInputError(
                f"{problem}.", hint="Give text, or items; on the command line, --file."
            )
        check_item_count(len(self.items))
        return self


_SKILL: Final = {
    "skill_name": "name",
    "keywords": "keywords",
    "skill_projects": "projects",
    "always_on": "always_on",
}
"""The fields that make up the trigger of a skill, with their names in it."""


_OF_TASKS: Final = frozenset(
    {"text", "headline", "project", "scope", "tags", "due_at", "priority", "assignee", "must_ack"}
)
"""The fields that the command for tasks takes."""


def _handle(brain: Brain, request: RememberRequest) -> RememberResult:
    key = request.idempotency_key
    if not request.items:
        reply = brain.remember(request.text, idempotency_key=key, **_metadata(request))
    else:
        reply = _remember_items(brain, request)
    # Stage durations matter only to measurements and cost agents tokens.
    return replace(reply, stages_ms=None)


def _remember_items(brain: Brain, request: RememberRequest) -> RememberResult:
    """Store several items; an invalid one is refused by itself."""
    shared = request.model_dump(include=set(RememberItem.model_fields), exclude_unset=True)
    drafts = [_draft(item, shared=shared) for item in request.items]
    valid = [one for one in drafts if isinstance(one, Draft)]
    reply = brain.remember(valid, idempotency_key=request.idempotency_key)
    results = iter(reply.items)
    items = tuple(next(results) if isinstance(one, Draft) else one for one in drafts)
    return replace(reply, items=items)


def _draft(item: RememberItem, *, shared: Mapping[str, Any]) -> Draft | ItemResult:
    if isinstance(item, InvalidItem):
        return _invalid(item.reason, hint=item.hint)
    given = item.model_dump(exclude_unset=True)
    merged = item.model_copy(update={name: shared[name] for name in shared.keys() - given.keys()})
    try:
        return draft_of(merged.text, **_metadata(merged))
    except InvalidInputError as error:
        return _invalid(error.message, hint=error.hint)


def _invalid(reason: str, *, hint: str) -> ItemResult:
    return ItemResult(status=ItemStatus.REJECTED, code="invalid", reason=reason, hint=hint)


def _metadata(item: RememberItem) -> DraftFields:
    fields = item.model_dump(exclude={"text", "items", "idempotency_key"}, exclude_defaults=True)
    skill = {part: fields.pop(name) for name, part in _SKILL.items() if name in fields}
    if skill:
        fields["skill"] = skill
    return DraftFields(**fields)


def _render(reply: RememberResult) -> str:
    lines = [render_item_result(outcome) for outcome in reply.items]
    if reply.affected:
        lines.append(reply.affected.line())
    return "\n".join(lines)


def render_item_result(outcome: ItemResult) -> str:
    """Render the result of one item, with the next step if it was refused."""
    lines = [f"{outcome.status} {outcome.id or ''}: {outcome.headline or ''}".rstrip(": ")]
    lines += [text for text in (outcome.reason, outcome.hint) if text]
    lines += list(outcome.warnings)
    lines += [f"contradicts {one.id}: {one.headline}" for one in outcome.conflicts]
    lines += [line for one in outcome.changes for line in one.lines()]
    lines += [
        f"{one.status} {one.id or ''}: {one.headline or one.reason or ''}"
        for one in outcome.derived
    ]
    if outcome.status is ItemStatus.STORED:
        named = {one.id for one in (*outcome.changes, *outcome.conflicts)}
        near = (
            f"similar {one.id} ({one.similarity:.2f}): {one.headline}"
            for one in outcome.similar
            if one.id not in named
        )
        lines += near
    lines += [f"may rest on {one.id}: {one.headline} ({one.how})" for one in outcome.suggestions]
    lines += [f"If so: {one.accept}" for one in outcome.suggestions[:1]]
    if outcome.affected:
        lines.append(outcome.affected.line())
    if outcome.embedding_pending:
        lines.append("Found by its words only until it is embedded.")
    return "\n".join(lines)


REMEMBER = Operation(
    name="remember",
    title="Remember",
    purpose="Store a decision, fact, rule, task or event so that every agent can recall it.",
    request=RememberRequest,
    profile=Profile.LITE,
    reply=RememberResult,
    handle=_handle,
    batch_field="items",
    render_text=_render,
    exit_code=lambda reply: EXIT_REFUSED * any(one.code for one in reply.items),
    role=Role.WRITER,
    consumes_quota=lambda _: True,
    positional=("text",),
    commands=(
        Command(
            name="task add",
            purpose="Add a task.",
            preset={"kind": "task"},
            fields=_OF_TASKS,
            required=frozenset({"text"}),
        ),
        Command(
            name="skill add",
            purpose="Add a rule that recall returns when a query contains one of its keywords.",
            preset={"kind": "rule"},
            fields=frozenset(
                {"text", "headline", "severity", "label", "project", "scope", "source_ref", *_SKILL}
            ),
            positional=("skill_name", "text"),
            required=frozenset({"skill_name", "text"}),
        ),
    ),
)
