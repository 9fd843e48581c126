"""The MCP prompt and resources, and what completes their arguments.

`RESOURCE_TYPES` is the table: each resource is an operation with one argument from the URI, so that
the same access rules apply on every transport. The inbox has no argument.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from mcp import types

from commonbrain.api.dispatch import dispatch
from commonbrain.api.operations import load_operation
from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError, NotFoundError
from commonbrain.model.escaping import inert

_PLAIN: Final = "text/plain"
STARTUP: Final = "startup"
_USAGE_HINT: Final = (
    "Recall before you answer about past work or redo it, and remember what is settled at once.\n"
    "Answer action items with revise ack before you write; hand over with session end at the end."
)


_VALUES_MAX: Final = 100
"""Completions in one reply, as the protocol bounds them."""
_ValuesOf = Callable[[Brain], list[str]]


def _memories(brain: Brain) -> list[str]:
    """Return the ids of the newest memories."""
    return [one.id for one in _answer(brain, "list", limit=_VALUES_MAX).memories]


def _threads(brain: Brain) -> list[str]:
    """Return the ids of the latest threads."""
    return [one.id for one in _answer(brain, "message", op="threads", limit=_VALUES_MAX).threads]


def _projects(brain: Brain) -> list[str]:
    """Return the projects with the most memories first."""
    counts = _answer(brain, "list", limit=1, facets=True).facets.project
    return [one.value for one in counts if one.value]


def _answer(brain: Brain, name: str, **arguments: object) -> Any:  # noqa: ANN401 each its own
    operation = load_operation(name)
    return dispatch(operation, brain, request=operation.request.model_validate(arguments))


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource type: its operation, and how its URI becomes the arguments."""

    scheme: str
    argument: str
    purpose: str
    operation: str
    """The name of the operation that reads it."""
    arguments: Callable[[str], Mapping[str, object]]
    values: _ValuesOf
    """Returns what completes its argument, the likeliest first."""
    is_found: Callable[[Any], bool] = lambda _: True

    @property
    def template(self) -> types.ResourceTemplate:
        """The template that clients see."""
        return types.ResourceTemplate(
            name=self.scheme,
            uri_template=f"{self.scheme}://{{{self.argument}}}",
            description=self.purpose,
            mime_type=_PLAIN,
        )


RESOURCE_TYPES: Final = {
    page.scheme: page
    for page in (
        Resource(
            scheme="memory",
            argument="id",
            purpose="One memory in full.",
            operation="get",
            arguments=lambda id_: {"id": [id_]},
            values=_memories,
        ),
        Resource(
            scheme="thread",
            argument="id",
            purpose="The messages of a thread.",
            operation="message",
            arguments=lambda id_: {"op": "history", "thread": id_},
            values=_threads,
            is_found=lambda reply: bool(reply.messages),
        ),
        Resource(
            scheme="boot",
            argument="project",
            purpose="The briefing for an agent that starts in a project.",
            operation="boot",
            arguments=lambda project: {"project": project},
            values=_projects,
        ),
    )
}
INBOX_URI: Final = "inbox://unread"
_INBOX: Final = Resource(
    scheme="inbox",
    argument="",
    purpose="Your unread messages, urgent first.",
    operation="message",
    arguments=lambda _: {"op": "inbox"},
    values=lambda _: [],
)
LISTED: Final = types.Resource(
    uri=INBOX_URI, name=_INBOX.scheme, description=_INBOX.purpose, mime_type=_PLAIN
)
"""The only resource without an argument, and the one to subscribe to."""
PROMPT: Final = types.Prompt(
    name=STARTUP,
    title="Start up",
    description="Start a session: your rules, open tasks, other active sessions.",
    arguments=[
        types.PromptArgument(name="project", description="The repository or topic", required=False),
        types.PromptArgument(name="task", description="Your task", required=False),
    ],
)


def read_resource(brain: Brain, uri: str) -> types.ReadResourceResult:
    """Read a resource in the operation's text form.

    Raises:
        NotFoundError: there is none, or the caller may not see it; both look the same.
        RejectedError: the caller's role is not sufficient.

    """
    scheme, _, address = uri.partition("://")
    page = _INBOX if uri == INBOX_URI else RESOURCE_TYPES.get(scheme)
    named = unquote(address)
    if page is None or not named:
        hint = f"Read memory://, thread://, boot:// or {INBOX_URI}."
        raise NotFoundError("No such resource.", hint=hint)
    operation = load_operation(page.operation)
    request = operation.request.model_validate(page.arguments(named))
    reply = dispatch(operation, brain, request=request)
    if not page.is_found(reply):
        raise NotFoundError("There is no such memory or thread.", hint="Check the id.")
    text = inert(operation.render_text(reply))
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=uri, mime_type=_PLAIN, text=text)]
    )


def render_startup(
    brain: Brain, name: str, *, arguments: Mapping[str, str]
) -> types.GetPromptResult:
    """Boot; return the briefing with two lines on how to use the memory.

    Raises:
        InvalidInputError: there is no such prompt, or it takes no such argument.

    """
    allowed = {argument.name for argument in PROMPT.arguments or ()}
    if name != STARTUP or not set(arguments) <= allowed:
        raise InvalidInputError(
            f"There is no such prompt; {STARTUP} takes {' and '.join(sorted(allowed))}."
        )
    boot = load_operation("boot")
    request = boot.request.model_validate(dict(arguments))
    text = f"{boot.render_text(dispatch(boot, brain, request=request))}\n\n{_USAGE_HINT}"
    described = types.PromptMessage(role="user", content=types.TextContent(text=inert(text)))
    return types.GetPromptResult(description=PROMPT.description, messages=[described])


_COMPLETED: Final[Mapping[tuple[str, str], _ValuesOf]] = {
    (STARTUP, "project"): _projects,
    **{(one.template.uri_template, one.argument): one.values for one in RESOURCE_TYPES.values()},
}
"""What completes an argument of a prompt or of a template."""


def complete_argument(brain: Brain, params: types.CompleteRequestParams) -> types.CompleteResult:
    """Complete an argument from what the caller may see; others have no completions.

    Raises:
        RejectedError: the caller's role is not sufficient.

    """
    reference, begun = params.ref, params.argument.value.casefold()
    target = reference.name if isinstance(reference, types.PromptReference) else reference.uri
    values_of = _COMPLETED.get((target, params.argument.name))
    known = values_of(brain) if values_of else []
    # First those that begin with the text.
    values = sorted(
        (one for one in known if begun in one.casefold() and one.isprintable()),
        key=lambda one: not one.casefold().startswith(begun),
    )
    return types.CompleteResult(completion=types.Completion(values=values[:_VALUES_MAX]))
