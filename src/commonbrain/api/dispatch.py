"""Authorizes every call, runs it and records its outcome, on all transports."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import Any, Final, Literal, get_args, get_origin

from commonbrain.api.errors import EXIT_REFUSED, to_transport_error
from commonbrain.api.operation import Operation, ReplyT, Request, RequestT, Transport
from commonbrain.api.switches import check_switched_on
from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError, LimitExceededError, RejectedError
from commonbrain.model.limits import REFUSAL_WRITE_WAIT_S
from commonbrain.model.scope import Caller, who_may
from commonbrain.model.values import dataclass, field, replace
from commonbrain.observability.tool_events import OK, REFUSED, ToolEvent, visible_parameters
from commonbrain.security.authority import check_is_person
from commonbrain.services import Services
from commonbrain.storage.interface import ADMITTING, AccessEntry

INTERNAL_ERROR: Final = "internal"
"""The code of an unexpected error."""
INTERRUPTED: Final = "interrupted"
"""The code of a call whose process was stopped."""
_OK_STATUS: Final = 200
_REFUSED_STATUS: Final = 422


@dataclass(slots=True)
class Call:
    """One call in progress."""

    outcome: str = OK
    http_status: int = _OK_STATUS
    session: str | None = None
    """The session that it started."""
    tokens: int = 0
    """Tokens of the memories that its caller is shown, where the reply counts them."""

    def record_reply(self, operation: Operation[Any, ReplyT], reply: ReplyT) -> None:
        """Record the exit code of a reply, the tokens that it counts, and what a boot started."""
        self.record_exit_code(operation.exit_code(reply))
        # A memory names a session too, which is its author's.
        self.session = getattr(reply, "session", None) if operation.name == "boot" else None
        self.tokens = getattr(reply, "tokens", 0)

    def record_exit_code(self, exit_code: int) -> None:
        """Record the exit code of the reply."""
        if exit_code == EXIT_REFUSED:
            self.outcome, self.http_status = REFUSED, _REFUSED_STATUS

    def record_error(self, error: BaseException) -> None:
        """Record the error that was raised."""
        is_expected = isinstance(error, CommonbrainError)
        unexpected_code = INTERNAL_ERROR if isinstance(error, Exception) else INTERRUPTED
        self.outcome = error.code if is_expected else unexpected_code
        self.http_status = to_transport_error(error).http_status if is_expected else 500


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """The operation called, its transport and its arguments."""

    operation: Operation[Any, Any]
    transport: Transport
    arguments: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def args(self) -> str:
        """The arguments without their text."""
        return visible_parameters(self.arguments, words=literal_values(self.operation.request))


def record_call(
    operation: Operation[Any, Any], request: Request, *, transport: Transport
) -> CallContext:
    """Describe a call by the fields that its request sets."""
    arguments = {name: getattr(request, name) for name in sorted(request.model_fields_set)}
    return CallContext(operation=operation, transport=transport, arguments=arguments)


@contextmanager
def record_event(brain: Brain, describe_call: CallContext) -> Generator[Call]:
    """Record an event for the block, whether it succeeds or fails."""
    services = brain.services
    call = Call()
    at, since_ms = services.clock.now(), services.clock.elapsed_ms()
    with services.telemetry.calling(
        describe_call.operation.name, transport=describe_call.transport
    ):
        try:
            yield call
        except BaseException as error:
            call.record_error(error)
            raise
        finally:
            duration_ms = services.clock.elapsed_ms() - since_ms
            _record(brain, describe_call, call=call, at=at, duration_ms=duration_ms)


def record_unstarted(
    describe_call: CallContext, brain: Brain, *, error: CommonbrainError, waited_s: float
) -> None:
    """Record a call that waited for its turn and was refused."""
    call = Call()
    call.record_error(error)
    at = brain.services.clock.now()
    _record(brain, describe_call, call=call, at=at, duration_ms=1000 * waited_s)


def _record(
    brain: Brain, describe_call: CallContext, *, call: Call, at: datetime, duration_ms: float
) -> None:
    services, caller = brain.services, brain.caller
    tokens = {"tokens": call.tokens} if call.tokens else {}
    shown = replace(describe_call, arguments={**tokens, **describe_call.arguments})
    event = ToolEvent(
        id=ids.make_id(at, services.random_source.bits(ids.RANDOM_BITS)),
        tenant=caller.tenant,
        at=at,
        session=caller.session or call.session,
        agent=caller.agent,
        tool=describe_call.operation.name,
        transport=describe_call.transport,
        duration_ms=round(duration_ms, 3),
        outcome=call.outcome,
        args=shown.args,
    )
    services.journal.note(event)
    services.telemetry.called(event, http_status=call.http_status)


@cache
def literal_values(request: type[Request]) -> Mapping[str, frozenset[str]]:
    """Map the fields of a request to the literal values that they accept."""
    fields = request.model_fields.items()
    return {name: frozenset(_literal_values(field.annotation)) for name, field in fields}


def _literal_values(annotation: Any) -> list[str]:  # noqa: ANN401 annotations are of any sort
    if get_origin(annotation) is Literal:
        return [word for word in get_args(annotation) if isinstance(word, str)]
    return [word for part in get_args(annotation) for word in _literal_values(part)]


def record_failed_open(
    describe_call: CallContext, error: CommonbrainError, *, agent: str | None
) -> None:
    """Record a call for which no store could be opened."""
    # The bootstrap module is slow to import; by now it is already loaded.
    from commonbrain.runtime.bootstrap import note_unopened  # noqa: PLC0415

    tool = describe_call.operation.name
    note_unopened(
        tool, error, agent=agent, transport=describe_call.transport, args=describe_call.args
    )


def authorize(services: Services, caller: Caller) -> None:
    """Count a call against the rate limit before it reads or writes anything.

    Raises:
        LimitExceededError: `rate_limited`; only the access audit records it.

    """
    if services.guard is None:
        return
    try:
        services.guard.check_rate(caller)
    except LimitExceededError as error:
        record_denial(ADMITTING, services, caller=caller, error=error)
        raise


def authorize_call(
    operation: Operation[Any, Any],
    brain: Brain,
    *,
    request: Request,
    transport: Transport | None = None,
) -> None:
    """Check role, quota and boot, the cheapest check first.

    The rate limit is checked earlier, when the caller is authenticated.

    Raises:
        RejectedError: `insufficient_role`, `scope_denied`, `person_required`, `paused`,
            `switched_off` or `boot_required`.
        LimitExceededError: `quota_exceeded`.

    """
    _check_role(operation, brain.caller)
    check_person(operation, brain, request=request)
    check_switched_on(operation, brain.caller, request=request)
    guard = brain.services.guard
    if guard is not None and operation.consumes_quota(request):
        guard.check_quota(brain.caller)
    if transport is not Transport.WEB:
        # The rule is for agents: a person has no session to boot.
        _check_has_booted(operation, brain)


def check_person(operation: Operation[Any, Any], brain: Brain, *, request: Request) -> None:
    """Check that a person makes a request that is for people alone.

    Raises:
        RejectedError: `person_required`; nothing was done.

    """
    if operation.needs_person(request):
        check_is_person(brain.caller, f"Changing what `{operation.name}` manages")


def record_denial(
    action: str,
    services: Services,
    *,
    caller: Caller,
    error: CommonbrainError,
    wait_s: float = 0.0,
) -> None:
    """Record a refusal in the access audit of a server, without content; wait at most so long."""
    if services.guard is None:
        return
    services.guard.note_denial(
        caller.tenant,
        replace(AccessEntry.by(caller, action, at=services.clock.now()), code=error.code),
        wait_s=wait_s,
    )


def _check_role(operation: Operation[Any, Any], caller: Caller) -> None:
    if caller.role.covers(operation.role):
        return
    if caller.admission is not None and caller.admission.role.covers(operation.role):
        raise RejectedError(
            f"This key's scopes do not let it {operation.name}, which takes the role "
            f"{operation.role}.",
            code="scope_denied",
            hint="Use a key with wider scopes.",
        )
    raise RejectedError(
        f"Agent {caller.agent} is a {caller.role}; {operation.name} takes the role "
        f"{operation.role}.",
        code="insufficient_role",
        hint=who_may(caller, operation.role),
    )


def _check_has_booted(operation: Operation[Any, Any], brain: Brain) -> None:
    admission = brain.caller.admission
    if (
        admission is None
        or not admission.policy.is_boot_required
        or operation.is_allowed_before_boot
    ):
        return
    if not brain.session.has_booted():
        raise RejectedError(
            f"This tenant requires a session to boot before {operation.name}.",
            code="boot_required",
            hint="Call boot with your session first: it lists your rules.",
        )


def dispatch(
    operation: Operation[RequestT, ReplyT],
    brain: Brain,
    *,
    request: RequestT,
    transport: Transport = Transport.MCP,
) -> ReplyT:
    """Run an operation if the caller is allowed to; record an event either way.

    The access audit records refusals. A network transport has already counted the call against the
    rate limit.

    Raises:
        RejectedError: `insufficient_role`, `scope_denied`, `boot_required`; nothing was done.
        LimitExceededError: `quota_exceeded`; nothing was stored.
        CommonbrainError: raised by the operation.

    """
    brain = brain.identified()
    with record_event(brain, record_call(operation, request, transport=transport)) as call:
        try:
            authorize_call(operation, brain, request=request, transport=transport)
            reply = operation.handle(brain, request)
        except (RejectedError, LimitExceededError) as error:
            record_denial(
                operation.name,
                brain.services,
                caller=brain.caller,
                error=error,
                wait_s=REFUSAL_WRITE_WAIT_S,
            )
            raise
        if transport is Transport.WEB:
            call.record_exit_code(operation.exit_code(reply))
        else:
            call.record_reply(operation, reply)
        return reply
