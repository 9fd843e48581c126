"""One request to the page, as the screens see it, and how they read the memory."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal, TypeVar, get_args, get_origin

from pydantic import ValidationError
from starlette.datastructures import ImmutableMultiDict

from commonbrain.api.dispatch import dispatch
from commonbrain.api.operation import Operation, Request, Transport
from commonbrain.api.operations.boot import BOOT, BootRequest
from commonbrain.api.operations.get import GET, GetRequest, GetResponse
from commonbrain.api.operations.recall import RECALL, RecallRequest
from commonbrain.client import Brain
from commonbrain.coordination.briefing import Briefing
from commonbrain.model.errors import InvalidInputError, NotFoundError
from commonbrain.model.limits import IDS_PER_GET_MAX
from commonbrain.model.recall_result import RecallResult
from commonbrain.model.scope import Role
from commonbrain.retrieval.get import MemoryView
from commonbrain.retrieval.plan import RecallOptions
from commonbrain.web.backups import Backups

_RequestT = TypeVar("_RequestT", bound=Request)
_ReplyT = TypeVar("_ReplyT")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationForm:
    """A form that runs an operation."""

    operation: str
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A person's request: who asks, and the parameters of the address."""

    brain: Brain
    parameters: ImmutableMultiDict[str, str]
    form: ImmutableMultiDict[str, str] = field(default_factory=ImmutableMultiDict[str, str])
    """The fields of the form; empty for a request without one."""
    path: Mapping[str, str] = field(default_factory=dict[str, str])
    """The variable parts of the path."""
    backups: Backups | None = None
    """Makes backups, on the page of this machine's store in a file."""

    @property
    def now(self) -> datetime:
        """The present time."""
        return self.brain.services.clock.now()

    def can(self, role: Role) -> bool:
        """Return whether the person has a role, or one that includes it."""
        return self.brain.caller.role.covers(role)

    def text(self, name: str) -> str:
        """Return a parameter without surrounding space; empty if it is missing."""
        return self.parameters.get(name, "").strip()

    def request(self, request_type: type[_RequestT], **preset: Any) -> _RequestT:  # noqa: ANN401 fields are of any type
        """Make a request of an operation from the parameters that it knows."""
        return parse_request(request_type, self.parameters, **preset)

    def call(self, operation: Operation[_RequestT, _ReplyT], request: _RequestT) -> _ReplyT:
        """Run an operation as the person; records an event.

        Raises:
            CommonbrainError: as `dispatch`.

        """
        return dispatch(operation, self.brain, request=request, transport=Transport.WEB)


def parse_request(
    request_type: type[_RequestT],
    values: ImmutableMultiDict[str, str],
    **preset: Any,  # noqa: ANN401 fields are of any type
) -> _RequestT:
    """Make a request from the fields of a form or an address; empty ones count as missing.

    A list takes every value of its name; several names in one value are separated by commas.

    Raises:
        InvalidInputError: a value does not fit its field.

    """
    given: dict[str, Any] = {}
    for name, described in request_type.model_fields.items():
        texts = [text.strip() for text in values.getlist(name) if text.strip()]
        if not texts:
            continue
        is_list = _takes_list(described.annotation)
        given[name] = [one for text in texts for one in _split(text)] if is_list else texts[-1]
    with valid_fields():
        return request_type.model_validate(given | preset)


@contextmanager
def valid_fields() -> Generator[None]:
    """Make requests of what a person sent.

    Raises:
        InvalidInputError: a value does not fit its field.

    """
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the form"
        raise InvalidInputError(
            f"{where[:40]}: {first['msg'][:100]}.", hint="Correct the field and send it again."
        ) from None


def _takes_list(annotation: Any) -> bool:  # noqa: ANN401 annotations are of any sort
    if get_origin(annotation) is Literal:
        return False
    return get_origin(annotation) is list or any(map(_takes_list, get_args(annotation)))


def _split(text: str) -> list[str]:
    return [part for one in text.split(",") if (part := one.strip())]


def _recall(brain: Brain, request: RecallRequest) -> RecallResult:
    # An agent's recall and get restore a memory's strength and teach the ranking; a person who
    # checks a memory on the page should change neither.
    options = RecallOptions(**request.model_dump(exclude={"query"}), bump=False)
    return brain.recall(request.query, **options)


def _get(brain: Brain, request: GetRequest) -> GetResponse:
    return GetResponse.of(brain.get_several(request.id, views=request.views, bump=False))


def _preview_boot(brain: Brain, request: BootRequest) -> Briefing:
    return brain.preview_boot(request.project, request.task)


def read_memories(
    visit: Visit, ids: Iterable[str], *, views: Sequence[str] = ()
) -> tuple[MemoryView, ...]:
    """Return memories in the order of their ids, each once.

    Raises:
        NotFoundError: one of them does not exist, or the person may not see it.

    """
    distinct, memories = list(dict.fromkeys(ids)), list[MemoryView]()
    for start in range(0, len(distinct), IDS_PER_GET_MAX):
        batch = distinct[start : start + IDS_PER_GET_MAX]
        first = visit.call(_READ_GET, GetRequest.model_validate({"id": batch, "views": views}))
        memories += (first, *first.more)
    return tuple(memories)


def read_visible(
    visit: Visit, ids: Iterable[str], *, views: Sequence[str] = ()
) -> dict[str, MemoryView]:
    """Return memories by id; none if one of them was erased, or is private to another agent."""
    try:
        return {memory.id: memory for memory in read_memories(visit, ids, views=views)}
    except NotFoundError:
        return {}


def revision_ids(memory: MemoryView) -> list[str]:
    """Return the ids of a memory's chain of revisions, oldest first; needs the view history."""
    return list(dict.fromkeys(one.id for one in memory.history or ()))


READ_RECALL: Final = replace(RECALL, handle=_recall)
_READ_GET: Final = replace(GET, handle=_get)
"""Takes ids only, no skill."""
PREVIEW_BOOT: Final = replace(BOOT, handle=_preview_boot)
"""Starts no session; takes the project and the task."""
