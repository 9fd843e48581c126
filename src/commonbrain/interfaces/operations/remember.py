"""The operation remember."""

from pydantic import Field

from commonbrain.brain import Brain
from commonbrain.domain.scope import Role
from commonbrain.flows.remember.outcome import Outcome, Remembered, Status
from commonbrain.flows.remember.pipeline import DraftFields
from commonbrain.interfaces.errors import EXIT_REFUSED
from commonbrain.interfaces.operations.operation import Name, Operation, Request, Since


class RememberRequest(Request):
    """One text to remember, with whatever is known of it."""

    text: str = Field(description="One statement, in full sentences that stand alone")
    kind: Name = Field(
        default=None,
        description="rule, fact, incident, task, event, episode, atom or message; by its words "
        "if left out",
    )
    headline: str | None = Field(default=None, description="At most 15 words; derived if left out")
    severity: Name = Field(default=None, description="Of a rule: BLOCKER or PATTERN")
    label: Name = Field(default=None, description="Such as decision, convention, insight, bug")
    project: Name = Field(default=None, description="Repo or topic; left out: every project")
    scope: Name = Field(default=None, description="private, team (default) or global")
    tags: list[str] = Field(default=[], description="Free keywords")
    trust: Name = Field(
        default=None, description="trusted_tool, user_claim or untrusted_web: where it comes from"
    )
    source_ref: str | None = Field(default=None, description="Where it stands: URL, file:line, ..")
    occurred_at: Since = Field(default=None, description="When it happened, ISO 8601")
    distinct_because: str | None = Field(
        default=None, description="Why it is not the duplicate it was refused as"
    )


def _handle(brain: Brain, request: RememberRequest) -> Remembered:
    given = request.model_dump(exclude={"text"}, exclude_none=True)
    return brain.remember(request.text, **DraftFields(**given))


def tell_outcome(outcome: Outcome) -> str:
    """Say what became of one item, and what to do when it did not get in."""
    lines = [f"{outcome.status} {outcome.id or ''}: {outcome.headline or ''}".rstrip(": ")]
    lines += [text for text in (outcome.reason, outcome.hint) if text]
    lines += list(outcome.warnings)
    if outcome.status is Status.STORED:
        near = (
            f"similar {one.id} ({one.similarity:.2f}): {one.headline}" for one in outcome.similar
        )
        lines += near
    if outcome.embedding_pending:
        lines.append("Found by its words only until the embedder is back.")
    return "\n".join(lines)


REMEMBER = Operation(
    name="remember",
    title="Remember",
    purpose="Store what was decided, learnt or asked for, so that every agent can recall it. "
    "Durable when it replies.",
    request=RememberRequest,
    reply=Remembered,
    handle=_handle,
    tell=lambda reply: "\n".join(tell_outcome(outcome) for outcome in reply.items),
    exit_code=lambda reply: EXIT_REFUSED * any(one.status.is_refused for one in reply.items),
    role=Role.WRITER,
    positional=("text",),
)
