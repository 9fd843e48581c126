"""The operation remember."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from pydantic import Field, model_validator

from commonbrain.api.errors import EXIT_REFUSED
from commonbrain.api.operation import (
    OMIT_DESCRIPTION,
    Command,
    Name,
    Operation,
    Profile,
    Request,
    Timestamp,
)
from commonbrain.client import Brain
from commonbrain.ingestion.result import DerivedResult, ItemResult, ItemStatus, RememberResult
from commonbrain.ingestion.service import DraftFields, draft_of
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.memory import Draft
from commonbrain.model.scope import Role


class RememberDetails(Request):
    """Fields of one kind only, or rarely needed ones; a field of another kind is an error."""

    severity: Name = Field(default=None, description="rule: BLOCKER or PATTERN")
    must_ack: bool = Field(
        default=False, description="rule, task: others must acknowledge it before they write"
    )
    skill_name: Name = Field(default=None, description="rule: makes it a skill of this name")
    keywords: list[str] = Field(default=[], description="skill: words that trigger it")
    skill_projects: list[str] = Field(default=[], description="skill: projects it applies to")
    always_on: bool = Field(default=False, description="skill: shown at every boot")
    subject: Name = Field(default=None, description="fact: what it is about")
    ttl_s: int | None = Field(default=None, description="fact: seconds until it expires")
    root_cause: str | None = Field(default=None, description="incident: why it happened")
    resolution: str | None = Field(default=None, description="incident: how it was fixed")
    due_at: Timestamp = Field(default=None, description="task: ISO 8601")
    priority: Name = Field(default=None, description="task: low, medium, high")
    assignee: Name = Field(default=None, description="task: agent that does it")
    actor: Name = Field(default=None, description="event: who acted")
    importance: float | None = Field(default=None, description="event: 0 to 1")
    started_at: Timestamp = Field(default=None, description="episode: ISO 8601")
    ended_at: Timestamp = Field(default=None, description="episode: ISO 8601")
    action: str | None = Field(default=None, description="atom: what was done to the subject")
    outcome: str | None = Field(default=None, description="atom: what the action caused")
    consequences: str | None = Field(default=None, description="atom: what the outcome caused")
    outcome_delay_s: float | None = Field(
        default=None, description="atom: seconds from action to outcome"
    )
    consequence_delay_s: float | None = Field(
        default=None, description="atom: seconds from outcome to consequences"
    )
    people: list[str] = Field(default=[], description="Names of people it is about")
    confidence: float | None = Field(default=None, description="0 to 1")
    expires_at: Timestamp = Field(default=None, description="ISO 8601")
    extract_tasks: bool = Field(default=False, description="Also store the tasks in the text")
    extract_causes: bool = Field(default=False, description="Also store causes as atoms")
    distinct_because: str | None = Field(default=None, description="Why it is not a duplicate")
    depends_on: list[str] = Field(default=[], description="Ids of memories it relies on")


class RememberRequest(Request):
    """A text to remember.

    The fields of `details` may also be given at the top level.
    """

    text: str = Field(description="One self-contained statement; paragraphs are split")
    kind: Name = Field(
        default=None,
        description="rule, fact, incident, task, event, episode, atom, message; "
        "default: from the text",
    )
    headline: str | None = Field(default=None, description="Max 15 words")
    label: Name = Field(default=None, description="decision, bug, ..")
    project: Name = Field(default=None, description="Default: every project")
    scope: Name = Field(default=None, description="private, team, global")
    tags: list[str] = Field(default=[], description="Keywords", json_schema_extra=OMIT_DESCRIPTION)
    trust: Name = Field(default=None, description="user_claim or untrusted_web")
    source_ref: str | None = Field(default=None, description="URL, file:line")
    derived_from: list[str] = Field(
        default=[], description="Ids", json_schema_extra=OMIT_DESCRIPTION
    )
    occurred_at: Timestamp = Field(
        default=None, description="ISO 8601", json_schema_extra=OMIT_DESCRIPTION
    )
    idempotency_key: Name = Field(
        default=None, description="One per call", json_schema_extra=OMIT_DESCRIPTION
    )
    details: RememberDetails = Field(
        default=RememberDetails(),
        description="rule: severity (BLOCKER, PATTERN), must_ack; skill: skill_name, keywords, "
        "skill_projects, always_on; fact: subject, ttl_s; incident: root_cause, resolution; "
        "task: due_at, priority (low, medium, high), assignee, must_ack; "
        "event: actor, importance; episode: started_at, ended_at; "
        "atom: subject, action, outcome, consequences, outcome_delay_s, consequence_delay_s; "
        "any: people, confidence, expires_at, depends_on, extract_tasks, distinct_because",
    )

    @model_validator(mode="before")
    @classmethod
    def _collect_details(cls, given: object) -> object:
        """Move fields of `details` that are given at the top level into it."""
        if not isinstance(given, Mapping):
            return given
        fields = dict(cast("Mapping[str, Any]", given))
        flat = {name: fields.pop(name) for name in RememberDetails.model_fields if name in fields}
        details = fields.get("details", {})
        if flat and isinstance(details, Mapping):
            fields["details"] = {**flat, **cast("Mapping[str, Any]", details)}
        return fields


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
    reply = brain.remember(
        request.text, idempotency_key=request.idempotency_key, **_metadata(request)
    )
    # Stage durations matter only to measurements and cost agents tokens.
    return replace(reply, stages_ms=None)


def _handle_batch(brain: Brain, requests: Sequence[RememberRequest]) -> RememberResult:
    keys = {request.idempotency_key for request in requests}
    if len(keys) > 1:
        raise InvalidInputError(
            "One call has one idempotency_key.", hint="Give it as an option, with the file."
        )
    drafts = [_draft(request, number=number) for number, request in enumerate(requests, 1)]
    return replace(brain.remember(drafts, idempotency_key=next(iter(keys), None)), stages_ms=None)


def _draft(request: RememberRequest, *, number: int) -> Draft:
    try:
        return draft_of(request.text, **_metadata(request))
    except InvalidInputError as error:
        raise InvalidInputError(f"Item {number}: {error.message}", hint=error.hint) from None


def _metadata(request: RememberRequest) -> DraftFields:
    fields = request.model_dump(exclude={"text", "idempotency_key"}, exclude_defaults=True)
    fields |= fields.pop("details", {})
    skill = {part: fields.pop(name) for name, part in _SKILL.items() if name in fields}
    if skill:
        fields["skill"] = skill
    return DraftFields(**fields)


def _render(reply: RememberResult) -> str:
    lines = [render_item_result(outcome) for outcome in reply.items]
    if reply.affected:
        lines.append(reply.affected.line())
    if reply.skipped:
        lines.append(f"Passages of fewer than five words, skipped: {reply.skipped}.")
    return "\n".join(lines)


def render_item_result(outcome: ItemResult) -> str:
    """Render the result of one item, with the next step if it was refused."""
    lines = [f"{outcome.status} {outcome.id or ''}: {outcome.headline or ''}".rstrip(": ")]
    lines += [text for text in (outcome.reason, outcome.hint) if text]
    lines += list(outcome.warnings)
    lines += [f"contradicts {one.id}: {one.headline}" for one in outcome.conflicts]
    lines += [line for one in outcome.changes for line in one.lines()]
    lines += [f"{one.status} {one.id or ''}: {_render_derived(one)}" for one in outcome.derived]
    if outcome.status is ItemStatus.STORED:
        changed = {one.id for one in outcome.changes}
        near = (
            f"similar {one.id} ({one.similarity:.2f}): {one.headline}"
            for one in outcome.similar
            if one.id not in changed
        )
        lines += near
    lines += [f"may rest on {one.id}: {one.headline} ({one.how})" for one in outcome.suggestions]
    lines += [f"If so: {one.accept}" for one in outcome.suggestions[:1]]
    if outcome.affected:
        lines.append(outcome.affected.line())
    if outcome.embedding_pending:
        lines.append("Found by its words only until the embedder is back.")
    return "\n".join(lines)


def _render_derived(part: DerivedResult) -> str:
    return part.headline or part.reason or ""


REMEMBER = Operation(
    name="remember",
    title="Remember",
    purpose="Store a decision, fact, rule, task or event so that every agent can recall it.",
    request=RememberRequest,
    profile=Profile.LITE,
    reply=RememberResult,
    handle=_handle,
    handle_batch=_handle_batch,
    render_text=_render,
    exit_code=lambda reply: EXIT_REFUSED * any(one.status.is_refused for one in reply.items),
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
