"""What every call leaves, whatever its door and its end: an event, and word to who listens."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal, get_args, get_origin

from commonbrain.brain import Brain
from commonbrain.domain import ids
from commonbrain.domain.errors import CommonbrainError
from commonbrain.domain.tool_event import OK, REFUSED, ToolEvent, told
from commonbrain.interfaces.errors import EXIT_REFUSED, fault_of
from commonbrain.interfaces.operations.operation import Door, Operation, Request

FAULT: Final = "internal"
"""The code of what broke inside and is no error of the house."""
INTERRUPTED: Final = "interrupted"
"""The code of a call whose process was told to stop."""
_SUCCESS: Final = 200
_REFUSED: Final = 422


@dataclass(slots=True)
class Call:
    """One call in progress."""

    outcome: str = OK
    http_status: int = _SUCCESS

    def answered(self, exit_code: int) -> None:
        """Say how the command line would end with this reply."""
        if exit_code == EXIT_REFUSED:
            self.outcome, self.http_status = REFUSED, _REFUSED

    def failed(self, error: BaseException) -> None:
        """Say what was raised."""
        known = isinstance(error, CommonbrainError)
        broken = FAULT if isinstance(error, Exception) else INTERRUPTED
        self.outcome = error.code if known else broken
        self.http_status = fault_of(error).http_status if known else 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is called, through which door, with which arguments."""

    operation: Operation[Any, Any]
    door: Door
    given: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def args(self) -> str:
        """Tell the arguments without a word of them."""
        return told(self.given, words=words_of(self.operation.request))


def asked(operation: Operation[Any, Any], request: Request, *, door: Door) -> Asked:
    """Say what is called by its request: the fields that were set, as they were given."""
    given = {name: getattr(request, name) for name in sorted(request.model_fields_set)}
    return Asked(operation=operation, door=door, given=given)


@contextmanager
def noted(brain: Brain, asked: Asked) -> Generator[Call]:
    """Leave an event of what is done inside, however that ends; nothing fails for it."""
    house, caller = brain.house, brain.caller
    call = Call()
    at, since_ms = house.clock.now(), house.clock.elapsed_ms()
    with house.telemetry.calling(asked.operation.name, door=asked.door):
        try:
            yield call
        except BaseException as error:
            call.failed(error)
            raise
        finally:
            event = ToolEvent(
                id=ids.make_id(at, house.chance.bits(ids.RANDOM_BITS)),
                tenant=caller.tenant,
                at=at,
                session=caller.session,
                agent=caller.agent,
                tool=asked.operation.name,
                door=asked.door,
                duration_ms=round(house.clock.elapsed_ms() - since_ms, 3),
                outcome=call.outcome,
                args=asked.args,
            )
            house.journal.note(event)
            house.telemetry.called(event, http_status=call.http_status)


@cache
def words_of(request: type[Request]) -> Mapping[str, frozenset[str]]:
    """Give the closed sets of words that fields of a request take, which nobody made up."""
    fields = request.model_fields.items()
    return {name: frozenset(_words(field.annotation)) for name, field in fields}


def _words(annotation: Any) -> list[str]:  # noqa: ANN401 annotations are of any sort
    if get_origin(annotation) is Literal:
        return [word for word in get_args(annotation) if isinstance(word, str)]
    return [word for part in get_args(annotation) for word in _words(part)]


def noted_unopened(asked: Asked, error: CommonbrainError, *, agent: str | None) -> None:
    """Leave an event of a call for which no store could be opened."""
    # What opens stores takes long to load; here it was loaded before.
    from commonbrain.wiring import note_unopened  # noqa: PLC0415

    tool = asked.operation.name
    note_unopened(tool, error, agent=agent, door=asked.door, args=asked.args)
