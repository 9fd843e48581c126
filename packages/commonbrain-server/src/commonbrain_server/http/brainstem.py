"""The bodies of `/v0/memory`, which are those of Brainstem, as operations of their own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import (
    Field,
    JsonValue,
    ModelWrapValidatorHandler,
    ValidationError,
    WrapValidator,
)
from pydantic_core import to_json

from commonbrain.api.errors import EXIT_REFUSED
from commonbrain.api.operation import Attachment, Name, Operation, Request, Timestamp
from commonbrain.api.operations.forget import FORGET, ForgetRequest
from commonbrain.api.operations.get import GET, GetRequest, ViewName
from commonbrain.api.operations.recall import RECALL, RecallRequest
from commonbrain.api.operations.reflect import REFLECT, ReflectRequest, ReflectResponse
from commonbrain.api.operations.remember import REMEMBER, RememberRequest
from commonbrain.client import Brain
from commonbrain.history.selection import Phase
from commonbrain.ingestion.result import ItemResult
from commonbrain.jobs.service import JobView
from commonbrain.model import limits
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind
from commonbrain.model.links import Conflict
from commonbrain.model.memory import State
from commonbrain.model.recall_result import ConfidenceSummary, Item
from commonbrain.model.scope import Scope, Trust
from commonbrain.retrieval.get import AccessStatus, ChangeEvent
from commonbrain.retrieval.provenance import Provenance
from commonbrain_server.operations.train import TRAIN, TrainRequest
from commonbrain_server.security.authentication import check_claims

_TYPES: Final[Mapping[Kind, str]] = {Kind.RULE: "policy"}
"""Kinds with another name in Brainstem."""


class OwnedRequest(Request):
    """A request that may name its tenant and agent; the credential decides."""

    tenant_id: Name = Field(default=None, description="The credential's own; others are refused")
    agent_id: Name = Field(default=None, description="The credential's own; others are refused")

    def check_owner(self, brain: Brain) -> None:
        """Reject a tenant or agent that is not the credential's.

        Raises:
            RejectedError: `tenant_mismatch` or `agent_mismatch`.

        """
        check_claims(brain.caller, tenant=self.tenant_id, agent=self.agent_id)

    def own_arguments(self) -> dict[str, Any]:
        """Return the given arguments except tenant and agent."""
        return self.model_dump(exclude={"tenant_id", "agent_id"}, exclude_defaults=True)


class WriteItem(Request):
    """A text to store."""

    text: str
    json_payload: Attachment | None = Field(
        default=None, description="An object that GET returns exactly; it is not searched"
    )
    type: Name = Field(default=None, description="event, fact, episode, policy, or any kind")
    scope: Name = Field(default=None, description="Default: the call's")
    source_ref: str | None = None
    trust_level: Name = Field(default=None, description="trusted_tool, user_claim, untrusted_web")
    confidence: float | None = Field(default=None, description="0 to 1")
    expires_at: Timestamp = Field(default=None, description="ISO 8601")

    def to_item(self) -> dict[str, Any]:
        """Convert it to an item of remember."""
        names = {"type": "kind", "trust_level": "trust", "json_payload": "attachment"}
        # A client of Brainstem may send every field, null where it has no value.
        return {names.get(name, name): value for name, value in self if value is not None}


def _item_or_reason(value: object, validate: ModelWrapValidatorHandler[WriteItem]) -> Any:  # noqa: ANN401
    try:
        return validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'item'}: {first['msg']}."
    except InvalidInputError as error:
        return error.message


class WriteRequest(OwnedRequest):
    """Items to store."""

    items: list[Annotated[WriteItem, WrapValidator(_item_or_reason)]] = Field(
        min_length=1, description=f"At most {limits.ITEMS_PER_CALL_MAX}"
    )
    scope: Name = Field(default=None, description="private, team (the default) or global")
    idempotency_key: Name = Field(default=None, description="One per call")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteReply:
    """The number of stored and refused items; a warning names its item."""

    accepted: int
    rejected: int
    memory_ids: tuple[str, ...]
    """Of the accepted items, in order; of what said it already if nothing new was stored."""
    warnings: tuple[str, ...]


def _remember(brain: Brain, request: WriteRequest) -> WriteReply:
    request.check_owner(brain)
    items: list[WriteItem | str] = list(request.items)
    valid = {n: one.to_item() for n, one in enumerate(items) if isinstance(one, WriteItem)}
    results: Mapping[int, ItemResult] = {}
    if valid:
        common = {"scope": request.scope, "idempotency_key": request.idempotency_key}
        given = {name: value for name, value in common.items() if value is not None}
        reply = REMEMBER.handle(
            brain, RememberRequest.model_validate(given | {"items": list(valid.values())})
        )
        results = dict(zip(valid, reply.items, strict=True))
    accepted = {n: one for n, one in results.items() if not one.status.is_refused}
    wrong = {n: one for n, one in enumerate(items) if isinstance(one, str)}
    warnings = {n: tuple(_warnings(one)) for n, one in results.items()}
    warnings |= {n: (f"invalid: {reason}",) for n, reason in wrong.items()}
    return WriteReply(
        accepted=len(accepted),
        rejected=len(items) - len(accepted),
        memory_ids=tuple(one.id for one in accepted.values() if one.id is not None),
        warnings=tuple(f"items[{n}]: {one}" for n in sorted(warnings) for one in warnings[n]),
    )


def _warnings(result: ItemResult) -> Iterator[str]:
    if result.status.is_refused:
        yield f"{result.code}: {result.reason or ''} {result.hint or ''}".strip()
    elif not result.status.is_new or result.reason:
        yield f"{result.status}: {result.reason or ''}".strip()
    yield from result.warnings
    yield from (f"contradicts {one.id}: {one.headline}" for one in result.conflicts)


class BrainstemBudget(Request):
    """The size of a result; by default the tenant's."""

    max_items: int | None = None
    max_tokens: int | None = None


class Filters(Request):
    """Which memories may be returned; the default of `trust_min` is the tenant's."""

    trust_min: float | None = Field(default=None, description="0 to 1")
    types: list[str] = Field(default=[], description="event, fact, episode, policy, or any kind")


class ReadRequest(OwnedRequest):
    """A question with budget and filters."""

    query: str = ""
    scope: Name = Field(default=None, description="Only of this scope; default: all visible")
    budget: BrainstemBudget = BrainstemBudget()
    filters: Filters = Filters()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """One memory of a result."""

    memory_id: str
    type: str
    text: str
    confidence: float
    salience: float
    source_ref: str | None
    trust_level: Trust
    scope: Scope
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReply:
    """Memories within the budget."""

    items: tuple[Snippet, ...]
    composed_tokens_estimate: int
    confidence: ConfidenceSummary | None
    conflicts: tuple[Conflict, ...]
    trace_id: str


def _recall(brain: Brain, request: ReadRequest) -> ReadReply:
    request.check_owner(brain)
    reply = RECALL.handle(
        brain,
        RecallRequest(
            query=request.query,
            scope=request.scope,
            max_items=request.budget.max_items,
            max_tokens=request.budget.max_tokens,
            trust_min=request.filters.trust_min,
            kinds=request.filters.types,
        ),
    )
    return ReadReply(
        items=tuple(map(_to_snippet, reply.items)),
        composed_tokens_estimate=reply.tokens,
        confidence=reply.confidence,
        conflicts=reply.conflicts,
        trace_id=reply.trace_id,
    )


def _to_snippet(item: Item) -> Snippet:
    return Snippet(
        memory_id=item.id,
        type=_TYPES.get(item.kind, item.kind),
        text=item.shown_text,
        confidence=item.confidence,
        salience=item.salience,
        source_ref=item.source_ref,
        trust_level=item.trust,
        scope=item.scope,
        created_at=item.recorded_at,
    )


class OwnedReflectRequest(OwnedRequest, ReflectRequest):
    """The memories to reflect on."""


def _reflect(brain: Brain, request: OwnedReflectRequest) -> ReflectResponse:
    request.check_owner(brain)
    return REFLECT.handle(brain, ReflectRequest(**request.own_arguments()))


class OwnedTrainRequest(OwnedRequest, TrainRequest):
    """The model to train, and the period to learn from."""


def _train(brain: Brain, request: OwnedTrainRequest) -> JobView:
    request.check_owner(brain)
    return TRAIN.handle(brain, TrainRequest(**request.own_arguments()))


class OneQuery(OwnedRequest):
    """The query of a call for one memory."""

    reason: str = Field(default="Deleted by its id.", description="DELETE: why; stored")


class OneRequest(OneQuery):
    """One memory."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """One memory with its provenance, revisions and policy checks."""

    memory_id: str
    tenant_id: str
    agent_id: str
    type: str
    scope: Scope
    text: str
    json_payload: Mapping[str, JsonValue] | None
    """As it was stored."""
    detail: Mapping[str, JsonValue]
    """The columns that only its kind has."""
    trust_level: Trust
    confidence: float
    salience: float
    source_ref: str | None
    created_at: datetime
    expires_at: datetime | None
    is_tombstoned: bool
    provenance: Provenance | None
    revisions: tuple[ChangeEvent, ...]
    policy: AccessStatus | None


def _inspect(brain: Brain, request: OneRequest) -> Inspection:
    request.check_owner(brain)
    views: list[ViewName] = ["provenance", "history", "policy"]
    one = GET.handle(brain, GetRequest(id=[request.id], views=views))
    detail: Mapping[str, Any] = one.detail
    payload: Mapping[str, Any] | None = one.attachment
    return Inspection(
        memory_id=one.id,
        tenant_id=brain.caller.tenant,
        agent_id=one.agent,
        type=_TYPES.get(one.kind, one.kind),
        scope=one.scope,
        text=one.body or one.headline,
        json_payload=payload,
        detail=detail,
        trust_level=one.trust,
        confidence=one.confidence,
        salience=one.salience,
        source_ref=one.source_ref,
        created_at=one.recorded_at,
        expires_at=one.policy.expires_at if one.policy else None,
        is_tombstoned=one.state is State.FORGOTTEN,
        provenance=one.provenance,
        revisions=one.history or (),
        policy=one.policy,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """A removed memory."""

    memory_id: str
    is_tombstoned: bool


_REMOVED: Final = frozenset({Phase.DONE, Phase.UNCHANGED})


def _forget(brain: Brain, request: OneRequest) -> Tombstone:
    request.check_owner(brain)
    done = FORGET.handle(brain, ForgetRequest(ids=[request.id], reason=request.reason))
    return Tombstone(memory_id=request.id, is_tombstoned=done.status in _REMOVED)


def _variant(of: Operation[Any, Any], request: type[Request], *, reply: type, handle: Any) -> Any:  # noqa: ANN401
    """Return an operation with Brainstem's bodies: its role and quota are the same."""
    return replace(
        of,
        request=request,
        reply=reply,
        handle=handle,
        render_text=_render,
        exit_code=_exit_code,
    )


def _render(reply: object) -> str:
    return to_json(reply).decode()


def _exit_code(reply: object) -> int:
    is_refused = isinstance(reply, WriteReply) and reply.rejected > 0
    return EXIT_REFUSED * is_refused


V0_POSTS: Final[tuple[Operation[Any, Any], ...]] = (
    _variant(REMEMBER, WriteRequest, reply=WriteReply, handle=_remember),
    _variant(RECALL, ReadRequest, reply=ReadReply, handle=_recall),
    _variant(REFLECT, OwnedReflectRequest, reply=ReflectResponse, handle=_reflect),
    _variant(TRAIN, OwnedTrainRequest, reply=JobView, handle=_train),
)
INSPECT: Final[Operation[Any, Any]] = _variant(GET, OneRequest, reply=Inspection, handle=_inspect)
DELETE: Final[Operation[Any, Any]] = _variant(FORGET, OneRequest, reply=Tombstone, handle=_forget)
