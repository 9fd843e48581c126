"""The operation type, and the field types that several requests share."""

from collections.abc import Callable, Mapping
from datetime import datetime
from difflib import get_close_matches
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Generic, Self, TypeVar, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    JsonValue,
    StringConstraints,
    TypeAdapter,
    ValidationInfo,
    model_validator,
)
from pydantic_core import CoreSchema

from commonbrain.api.agent_arguments import list_arguments, read_arguments
from commonbrain.client import Brain
from commonbrain.model import limits
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.escaping import inert
from commonbrain.model.scope import Role
from commonbrain.model.timestamps import parse_instant
from commonbrain.model.values import dataclass
from commonbrain.observability.tool_events import WEB_TRANSPORT


class Transport(StrEnum):
    """The interface through which a call arrives."""

    CLI = "cli"
    MCP = "mcp"
    REST = "rest"
    WEB = WEB_TRANSPORT


class Profile(StrEnum):
    """The set of tools that an MCP client sees; each includes the previous one."""

    LITE = "lite"
    CORE = "core"
    OPERATOR = "operator"

    def includes(self, profile: "Profile") -> bool:
        """Return whether this profile includes the tools of another."""
        order = tuple(Profile)
        return order.index(self) >= order.index(profile)


BY_AGENT: Final[Mapping[str, bool]] = {"is_by_agent": True}
"""The context in which requests, and the items in them, take only the arguments for agents."""


class Request(BaseModel):
    """The arguments of an operation; unknown ones are errors."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", str_strip_whitespace=True, allow_inf_nan=False
    )
    SHOWN: ClassVar[tuple[str, ...]] = ()
    """Arguments that the schema of a tool describes; it names the others under `details`.

    Empty: all.
    """

    @model_validator(mode="before")
    @classmethod
    def _check_names_and_size(cls, given: object, info: ValidationInfo) -> object:
        """Refuse an unknown argument by name, with the nearest known one, and too many values."""
        if not isinstance(given, Mapping):
            return given
        names = cast("Mapping[str, object]", given)
        _check_size(names)
        is_by_agent = info.context is BY_AGENT
        accepted = arguments_for_agents(cls) if is_by_agent else list(cls.model_fields)
        if is_by_agent:
            names = read_arguments(cls, names, accepted=accepted, has_details=bool(cls.SHOWN))
        unknown = next((str(name) for name in names if name not in accepted), None)
        if unknown is None:
            return names
        nearest = get_close_matches(unknown, accepted, n=1)
        raise InvalidInputError(
            f"There is no argument {unknown[:_UNKNOWN_CHARS_MAX]!r}"
            f"{f'; did you mean {nearest[0]!r}?' if nearest else '.'}",
            hint=f"The arguments are {list_arguments(accepted)}.",
        )


_UNKNOWN_CHARS_MAX: Final = 40
_ATTACHMENT: Final = "attachment"
"""The argument that is any JSON; its own limit is in bytes."""


_Container = Mapping[Any, object] | list[object]


def _check_size(arguments: Mapping[str, object]) -> None:
    """Bound the values of a call before they are validated one by one.

    Each wrong value costs an error: half a million of them took seconds and a gigabyte.

    Raises:
        InvalidInputError: `limit_exceeded`.

    """
    values = 0
    level: list[_Container] = [arguments]
    for _ in range(limits.ARGUMENT_DEPTH_MAX):
        below: list[_Container] = []
        for container in level:
            values += len(container)
            if isinstance(container, list) and len(container) > limits.LIST_VALUES_MAX:
                raise _too_large(
                    f"A list has {len(container)} values, more than {limits.LIST_VALUES_MAX}"
                )
            if values > limits.ARGUMENT_VALUES_MAX:
                raise _too_large(
                    f"The arguments have more than {limits.ARGUMENT_VALUES_MAX} values"
                )
            below.extend(_containers_in(container))
        if not below:
            return
        level = below
    raise _too_large(f"The arguments are nested more than {limits.ARGUMENT_DEPTH_MAX} levels deep")


def _containers_in(container: _Container) -> list[_Container]:
    if isinstance(container, Mapping):
        values = [value for name, value in container.items() if name != _ATTACHMENT]
    else:
        values = container
    return [cast("_Container", value) for value in values if isinstance(value, Mapping | list)]


def _too_large(problem: str) -> InvalidInputError:
    return InvalidInputError(
        f"{problem}.", code="limit_exceeded", hint="Split it into several calls."
    )


@dataclass(frozen=True, slots=True)
class Verb:
    """The arguments of one verb of an operation that has several."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    is_read_only: bool = False
    """Whether it changes nothing.

    The exception is `session list`: it ends sessions that it finds dead, at most once each.
    """

    @property
    def arguments(self) -> frozenset[str]:
        """Names of all arguments."""
        return frozenset((*self.required, *self.optional))


class VerbRequest(Request):
    """A request whose field `op` names a verb, which takes some of the other fields.

    An argument of another verb is an error, unless it has its default. The JSON schema is a
    union with one object per verb.
    """

    VERBS: ClassVar[Mapping[str, Verb]]
    SHARED: ClassVar[Verb] = Verb()
    """Arguments that every verb takes."""

    @property
    def verb(self) -> Verb:
        """The verb that the request names."""
        return self.VERBS[str(getattr(self, "op"))]  # noqa: B009 each request declares its own

    @classmethod
    def arguments_of(cls, op: object) -> frozenset[str]:
        """Names of the arguments that a verb takes."""
        return cls.VERBS[str(op)].arguments | cls.SHARED.arguments

    @model_validator(mode="after")
    def _check_arguments(self) -> Self:
        op = str(getattr(self, "op"))  # noqa: B009 each request declares its own
        required = (*self.SHARED.required, *self.VERBS[op].required)
        missing = [name for name in required if getattr(self, name) in (None, "", [])]
        fields = type(self).model_fields.items()
        given = [
            name
            for name, field in fields
            if getattr(self, name) != field.get_default(call_default_factory=True)
        ]
        unknown = [name for name in given if name not in {"op", *self.arguments_of(op)}]
        if missing or unknown:
            problem = f"needs {', '.join(missing)}" if missing else f"takes no {', '.join(unknown)}"
            accepted = [name for name, _ in fields if name in self.arguments_of(op)]
            raise InvalidInputError(
                f"{op} {problem}.",
                hint=f"{op} takes {', '.join(accepted) or 'no arguments'}.",
            )
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> dict[str, Any]:
        """Build the schema as a union of the verbs."""
        flat = handler.resolve_ref_schema(handler(core_schema))
        fields = flat["properties"]
        always = [name for name in flat.get("required", []) if name not in cls.SHARED.required]

        def one(op: str, verb: Verb) -> dict[str, Any]:
            accepted = cls.arguments_of(op)
            named = {name: field for name, field in fields.items() if name in accepted}
            required = (*cls.SHARED.required, *verb.required)
            return {
                "title": f"{cls.__name__.removesuffix('Request')} {op}",
                "type": "object",
                "properties": {"op": {"const": op, "type": "string"}, **named},
                "required": list(dict.fromkeys([*always, *required])),
                "additionalProperties": False,
            }

        return {
            "title": cls.__name__,
            "type": "object",
            "oneOf": [one(op, verb) for op, verb in cls.VERBS.items()],
            "discriminator": {"propertyName": "op"},
        }


RequestT = TypeVar("RequestT", bound=Request)
ReplyT = TypeVar("ReplyT")


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command for one use of an operation; it presets some fields."""

    name: str
    """One word, or two: its group and its name in the group."""
    purpose: str
    preset: Mapping[str, object]
    fields: frozenset[str] | None = None
    """The other request fields that the command takes; None: all arguments of the preset verb."""
    positional: tuple[str, ...] = ()
    """Positional arguments in order; empty: the operation's."""
    required: frozenset[str] = frozenset()
    """Fields that the command requires but the operation does not."""
    single: frozenset[str] = frozenset()
    """List fields that take a single value."""
    needs_confirmation: bool = False
    """Whether it asks for confirmation, unless `--yes` is given."""
    is_awaited: bool = False
    """Whether it has `--wait`, to wait for the job that it starts."""


def verb_command(
    name: str,
    purpose: str,
    *positional: str,
    optional: tuple[str, ...] = (),
    op: str | None = None,
    required: frozenset[str] = frozenset(),
    single: frozenset[str] = frozenset(),
) -> Command:
    """Make the command of a verb, by default the name's last word.

    It requires its positionals, except those in `optional`, which follow them.
    """
    return Command(
        name=name,
        purpose=purpose,
        preset={"op": op or name.rpartition(" ")[2]},
        positional=(*positional, *optional),
        required=required | frozenset(positional),
        single=single,
    )


@dataclass(frozen=True, kw_only=True)
class Operation(Generic[RequestT, ReplyT]):
    """An operation, the same on every transport."""

    name: str
    title: str
    purpose: str
    """The tool description, in one or two sentences."""
    request: type[RequestT]
    reply: type[ReplyT]
    handle: Callable[[Brain, RequestT], ReplyT]
    has_progress: bool = False
    """Whether it can take long, and its handler takes `on_progress`."""
    batch_field: str | None = None
    """The field for several objects in one call; on the command line they come from a file."""
    render_text: Callable[[ReplyT], str]
    """Renders the reply as text."""
    to_csv: Callable[[ReplyT], str] | None = None
    """Formats the reply as CSV, if it is a table."""
    exit_code: Callable[[ReplyT], int] = lambda _: 0
    """The exit code; not 0 if anything was refused or is corrupt."""
    role: Role = Role.READER
    transports: frozenset[Transport] = frozenset(Transport)
    profile: Profile = Profile.CORE
    """The smallest profile that includes its tool."""
    consumes_quota: Callable[[RequestT], bool] = lambda _: False
    """Whether a request stores memories; it fails if the tenant's quota is used up."""
    needs_person: Callable[[RequestT], bool] = lambda _: False
    """Whether a request is for people alone, or for what one let act for them."""
    is_allowed_before_boot: bool = False
    """Whether a session that must boot may call it first."""
    positional: tuple[str, ...] = ()
    """Positional arguments on the command line, in order."""
    reads_both_ends: bool = False
    """Whether of a long text on stdin both ends are enough; of others, too long is an error."""
    is_read_only: bool = False
    is_destructive: bool = False
    is_idempotent: bool = False

    expected_confirm: Callable[[ReplyT], int | None] = lambda _: None
    """The count that `confirm` must repeat, if the reply is a preview."""
    preview: Callable[[Brain, RequestT], ReplyT | None] | None = None
    """The preview that a terminal shows before the user confirms."""
    commands: tuple[Command, ...] = ()
    """Its other commands on the command line."""

    to_compact: Callable[[ReplyT], object] | None = None
    """Converts the reply to the JSON shape for agents, if it differs."""
    compact_reply: type | None = None
    """That shape."""

    def fields_of(self, command: Command | None) -> tuple[str, ...]:
        """Names of the request's fields that a command takes, in order."""
        fields = [name for name in self.request.model_fields if name != self.batch_field]
        if command is None:
            return tuple(fields)
        accepted = command.fields
        if accepted is None and issubclass(self.request, VerbRequest):
            accepted = self.request.arguments_of(command.preset["op"]) - command.preset.keys()
        return tuple(name for name in fields if name in (accepted or ()))

    def is_mandatory(self, name: str) -> bool:
        """Return whether the command line requires a field; a file can replace its positionals."""
        is_replaceable = self.batch_field is not None and name in self.positional
        return is_replaceable or self.request.model_fields[name].is_required()

    def only_reads(self, request: Request | None) -> bool:
        """Return whether a request only reads: all of its operation do, or those of its verb."""
        is_reading = isinstance(request, VerbRequest) and request.verb.is_read_only
        return self.is_read_only or is_reading

    def is_repeatable(self, request: RequestT) -> bool:
        """Return whether a request may run twice: it only reads, or is idempotent."""
        return self.only_reads(request) or self.is_idempotent

    @cached_property
    def reply_adapter(self) -> TypeAdapter[ReplyT]:
        """The JSON adapter of the reply."""
        return TypeAdapter(self.reply)

    def to_json(self, reply: ReplyT) -> dict[str, Any]:
        """Convert a reply to plain JSON values, for programs."""
        return self.reply_adapter.dump_python(reply, mode="json")

    @cached_property
    def agent_reply_adapter(self) -> TypeAdapter[Any]:
        """The JSON adapter of the reply for agents."""
        return TypeAdapter(self.compact_reply or self.reply)

    def to_agent_json(self, reply: ReplyT) -> dict[str, Any]:
        """Convert a reply to plain JSON values for agents, without nulls to save tokens."""
        compact = self.to_compact(reply) if self.to_compact else reply
        return _strip_controls(
            self.agent_reply_adapter.dump_python(compact, mode="json", exclude_none=True)
        )


def _strip_controls(value: Any) -> Any:  # noqa: ANN401 JSON holds anything
    """Remove control characters from every text."""
    match value:
        case str():
            return inert(value)
        case list():
            return [_strip_controls(one) for one in cast("list[Any]", value)]
        case dict():
            return {
                name: _strip_controls(one) for name, one in cast("dict[str, Any]", value).items()
            }
        case _:
            return value


Timestamp = Annotated[
    datetime | None,
    BeforeValidator(lambda one: parse_instant(one) if isinstance(one, str) else one),
]
"""A date or time as ISO 8601; a date means its start."""
TimeBound = Annotated[str | None, Field(max_length=limits.NAME_CHARS_MAX)]
"""A time bound as ISO 8601, or in words relative to now."""
Name = Annotated[str | None, Field(max_length=limits.NAME_CHARS_MAX)]
"""The name of a project, label, agent or similar."""
Cursor = Annotated[
    str | None, Field(max_length=limits.CURSOR_CHARS_MAX, description="`next` of the page before")
]
"""Where a page of a list begins."""


def for_agents(text: str) -> dict[str, JsonValue]:
    """Replace the description, and leave out the default, in the schema that agents read."""
    return {"for_agents": text}


OMIT_DESCRIPTION: Final = for_agents("")
"""Leaves the description out of the tool schema: the field's name is enough."""
HIDE_FROM_AGENTS: Final[dict[str, JsonValue]] = {"for_agents": None}
"""Makes tools list and take all other fields only: programs alone need this one."""


def argument(description: str, default: Any = None, *, agents: str | None = "same") -> Any:  # noqa: ANN401 a field of any type
    """Declare an argument of an operation.

    Args:
        description: what it means to a person, in help texts and the reference.
        default: its value if it is not given.
        agents: what the schema of a tool says instead; empty says nothing, for the name is enough,
            and None makes tools neither list nor take it.

    """
    extra: dict[str, JsonValue] | None = None if agents == "same" else {"for_agents": agents}
    return Field(default=default, description=description, json_schema_extra=extra)


def arguments_for_agents(request: type[Request]) -> list[str]:
    """Return the names of the fields that a tool takes, in the order of its schema."""
    fields = request.model_fields.items()
    taken = [name for name, field in fields if field.json_schema_extra != HIDE_FROM_AGENTS]
    shown = request.SHOWN
    return [*shown, *(name for name in taken if name not in shown)]


Attachment = dict[Annotated[str, StringConstraints(strip_whitespace=False)], Any]
"""A JSON object whose texts and names stay exactly as they are."""
OneOrMore = Annotated[
    list[str], BeforeValidator(lambda one: [one] if isinstance(one, str) else one)
]
"""A list, or its only element."""
Id = Annotated[str, Field(description="mem_...")]
Reason = Annotated[str, Field(description="The reason, in a sentence; stored")]
