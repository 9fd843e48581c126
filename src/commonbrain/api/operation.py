"""What an operation is, and the field types that several requests share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Final, Generic, Protocol, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, TypeAdapter

from commonbrain.client import Brain
from commonbrain.model.escaping import inert
from commonbrain.model.limits import NAME_CHARS_MAX
from commonbrain.model.scope import Role
from commonbrain.model.timestamps import parse_instant
from commonbrain.storage.maintenance import Progress


class Transport(StrEnum):
    """A way in."""

    CLI = "cli"
    MCP = "mcp"
    REST = "rest"


class Profile(StrEnum):
    """How many tools an MCP client is shown; each shows those of the one before."""

    LITE = "lite"
    CORE = "core"
    OPERATOR = "operator"

    def shows(self, other: "Profile") -> bool:
        """Say whether it shows the tools of another one."""
        order = tuple(Profile)
        return order.index(self) >= order.index(other)


class Request(BaseModel):
    """What a caller gives; unknown fields are refused, so that a slip is told and not ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


RequestT = TypeVar("RequestT", bound=Request)
ReplyT = TypeVar("ReplyT")
GivenT_contra = TypeVar("GivenT_contra", bound=Request, contravariant=True)
MadeT_co = TypeVar("MadeT_co", covariant=True)


class ProgressHandler(Protocol[GivenT_contra, MadeT_co]):
    """How an operation is done that tells how far it has come."""

    def __call__(
        self, brain: Brain, request: GivenT_contra, /, *, on_progress: Progress
    ) -> MadeT_co:
        """Do it."""
        ...


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command of its own for one way to use an operation: some fields are settled by its name."""

    name: str
    """One word, or two: the group it stands in, and its own in there."""
    purpose: str
    preset: Mapping[str, object]
    fields: frozenset[str]
    """The request's other fields that it takes."""
    positional: tuple[str, ...] = ()
    """Those that it takes without a name, in order, where they are not the operation's."""
    required: frozenset[str] = frozenset()
    """Those that it cannot do without, though the operation can."""
    single: frozenset[str] = frozenset()
    """Lists of which it takes one."""
    is_weighty: bool = False
    """Whether a person is asked before it is done, unless told not to be."""
    is_awaited: bool = False
    """Whether a person may wait for the job that it asks for."""


@dataclass(frozen=True, kw_only=True)
class Operation(Generic[RequestT, ReplyT]):
    """One thing that can be asked of a brain, the same at every door."""

    name: str
    title: str
    purpose: str
    """What an agent reads to choose it; a sentence or two."""
    request: type[RequestT]
    reply: type[ReplyT]
    handle: Callable[[Brain, RequestT], ReplyT]
    watched: "ProgressHandler[RequestT, ReplyT] | None" = None
    """The same for who wants to see it move, where it may take long."""
    many: Callable[[Brain, Sequence[RequestT]], ReplyT] | None = None
    """The same for several requests at once, where the command takes a file of them."""
    tell: Callable[[ReplyT], str]
    """How an agent reads the reply."""
    exit_code: Callable[[ReplyT], int] = lambda _: 0
    """How the command ends: other than 0 when anything was refused or found broken."""
    role: Role = Role.READER
    doors: frozenset[Transport] = frozenset(Transport)
    profile: Profile = Profile.CORE
    """The smallest that shows its tool."""
    adds: Callable[[RequestT], bool] = lambda _: False
    """Whether a request asks for more memories: a tenant that is full is refused at once."""
    is_first: bool = False
    """Whether it is what a session that must boot is let do before."""
    positional: tuple[str, ...] = ()
    """The request's fields that the command line takes without a name, in order."""
    is_read_only: bool = False
    is_destructive: bool = False
    is_idempotent: bool = False

    has_own_command: bool = True
    """Whether the command line has one of its name, beside those of `commands`."""
    unconfirmed: Callable[[ReplyT], int | None] = lambda _: None
    """Gives the count that the request's field `confirm` must repeat, of a reply that previews."""
    weighty: Callable[[Brain, RequestT], ReplyT | None] | None = None
    """Gives a preview of what a person at a terminal is asked about before it is done."""
    commands: tuple[Command, ...] = ()
    """Further names on the command line."""

    for_agents: Callable[[ReplyT], object] | None = None
    """Gives the reply in the shape that agents read as JSON, where that is another."""
    agent_reply: type | None = None
    """That shape."""

    @cached_property
    def replies(self) -> TypeAdapter[ReplyT]:
        """How the reply is written as JSON."""
        return TypeAdapter(self.reply)

    def to_json(self, reply: ReplyT) -> dict[str, Any]:
        """Write a reply as plain JSON values, for programs."""
        return self.replies.dump_python(reply, mode="json")

    @cached_property
    def agent_replies(self) -> TypeAdapter[Any]:
        """How the reply is written as JSON for agents."""
        return TypeAdapter(self.agent_reply or self.reply)

    def to_agent_json(self, reply: ReplyT) -> dict[str, Any]:
        """Write a reply as plain JSON values for agents, who pay for every word: no nulls."""
        shaped = self.for_agents(reply) if self.for_agents else reply
        return _inert(self.agent_replies.dump_python(shaped, mode="json", exclude_none=True))


def _inert(value: Any) -> Any:  # noqa: ANN401 JSON holds anything
    """Take out of every text what would be obeyed and not seen."""
    match value:
        case str():
            return inert(value)
        case list():
            return [_inert(one) for one in cast("list[Any]", value)]
        case dict():
            return {name: _inert(one) for name, one in cast("dict[str, Any]", value).items()}
        case _:
            return value


def _moment(value: object) -> object:
    return parse_instant(value) if isinstance(value, str) else value


Moment = Annotated[datetime | None, BeforeValidator(_moment)]
"""A date or time as ISO 8601; a date means its first moment."""
Bound = Annotated[str | None, Field(max_length=NAME_CHARS_MAX)]
"""A bound in time, as ISO 8601 or in words that are relative to when it is asked."""
Name = Annotated[str | None, Field(max_length=NAME_CHARS_MAX)]
"""A project, label, agent and the like."""
PLAIN: Final[dict[str, JsonValue]] = {"plain": True}
"""Marks a field whose name tells an agent enough: its description is for people."""
UNSEEN: Final[dict[str, JsonValue]] = {"unseen": True}
"""Marks a field that agents are not told of: few need it, and all would pay for its words."""
Id = Annotated[str, Field(description="mem_...")]
Reason = Annotated[str, Field(description="Why, in a sentence; it is kept")]
