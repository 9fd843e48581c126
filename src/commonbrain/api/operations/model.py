"""The operation model: trained models, which of them serves whom, and how they are monitored."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from pydantic import Field

from commonbrain.api.operation import Command, Operation, Profile, Request
from commonbrain.client import Brain
from commonbrain.learning.outcomes import Figures
from commonbrain.learning.registry import (
    EvaluationView,
    ModelsResponse,
    ModelView,
    TransitionOptions,
)
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.escaping import inert_line
from commonbrain.model.limits import CANARY_AGENTS_MAX
from commonbrain.model.model_card import PERCENT_DEFAULT, ModelRole, ModelState
from commonbrain.model.scope import Role
from commonbrain.model.timestamps import show_instant

Op = Literal["list", "show", "canary", "promote", "rollback", "retire", "guards", "train"]


class ModelRequest(Request):
    """Which model, and what to do with it."""

    op: Op = Field(
        default="list",
        description="canary: serve a share of the sessions; promote: serve all; guards: what they "
        "make of what serves; train: ask for a new one",
    )
    id: str | None = Field(default=None, description="mdl_...; all but list and train take it")
    role: ModelRole | None = Field(default=None, description="list, train: only of these")
    percent: float = Field(
        default=PERCENT_DEFAULT, ge=0, le=100, description="canary: of the sessions, sticky"
    )
    allow: list[str] = Field(
        default=[],
        max_length=CANARY_AGENTS_MAX,
        description="canary: agents that it serves whatever their share",
    )
    reason: str | None = Field(default=None, description="The reason, in a sentence; stored")
    force: bool = Field(
        default=False, description="canary, promote: though it is not proven; takes a reason"
    )
    dry_run: bool = Field(default=False, description="Show what would be moved, and move nothing")


_ID: Final = frozenset({"id"})
_TRANSITION_FIELDS: Final = frozenset({"id", "reason", "dry_run"})
_ALLOWED: Final[Mapping[Op, frozenset[str]]] = {
    "list": frozenset({"role"}),
    "show": _ID,
    "canary": _TRANSITION_FIELDS | {"percent", "allow", "force"},
    "promote": _TRANSITION_FIELDS | {"force"},
    "rollback": _TRANSITION_FIELDS,
    "retire": _TRANSITION_FIELDS,
    "guards": _ID,
    "train": frozenset({"role"}),
}
"""The fields that each verb accepts."""
_NEEDS_NO_ID: Final = frozenset({"list", "guards", "train"})


def _handle(brain: Brain, request: ModelRequest) -> ModelsResponse:
    fields = set(request.model_dump(exclude={"op"}, exclude_defaults=True))
    unknown = sorted(fields - _ALLOWED[request.op])
    if unknown:
        allowed = ", ".join(sorted(_ALLOWED[request.op]))
        raise InvalidInputError(
            f"{request.op} takes no {', '.join(unknown)}.", hint=f"It takes {allowed}."
        )
    if request.id is None and request.op not in _NEEDS_NO_ID:
        raise InvalidInputError(f"{request.op} needs id.", hint="Give id.")
    return _CALLS[request.op](brain, request)


def _canary(brain: Brain, request: ModelRequest) -> ModelsResponse:
    return brain.models.canary(
        request.id or "",
        percent=request.percent,
        allow=request.allow,
        move=_transition_options(request),
    )


def _train(brain: Brain, request: ModelRequest) -> ModelsResponse:
    job = brain.jobs.run(f"train_{request.role or ModelRole.RERANKER}")
    return replace(brain.models(request.role or ModelRole.RERANKER), op="train", job=job.id)


_CALLS: Final[Mapping[Op, Callable[[Brain, ModelRequest], ModelsResponse]]] = {
    "list": lambda brain, told: brain.models(told.role),
    "show": lambda brain, told: brain.models.show(told.id or ""),
    "canary": _canary,
    "promote": lambda brain, told: brain.models.promote(
        told.id or "", move=_transition_options(told)
    ),
    "rollback": lambda brain, told: brain.models.roll_back(
        told.id or "", move=_transition_options(told)
    ),
    "retire": lambda brain, told: brain.models.retire(
        told.id or "", move=_transition_options(told)
    ),
    "guards": lambda brain, told: brain.models.guards(told.id),
    "train": _train,
}


def _transition_options(request: ModelRequest) -> TransitionOptions:
    return TransitionOptions(
        reason=request.reason, is_forced=request.force, is_preview=request.dry_run
    )


def _preview(brain: Brain, request: ModelRequest) -> ModelsResponse | None:
    """Return what a change would do."""
    if request.op not in {"promote", "rollback", "retire"} or request.dry_run:
        return None
    return _handle(brain, request.model_copy(update={"dry_run": True}))


def _render(reply: ModelsResponse) -> str:
    lines = ["This would be so; nothing was moved."] if reply.is_preview else []
    if reply.job is not None:
        lines.append(f"{reply.job} trains a new one: brain job show {reply.job}.")
    evaluation = {one.id: one for one in reply.guards or ()}
    for one in reply.models:
        lines.append(_render_model(one))
        lines += _render_card(one) if one.features is not None else ()
        lines += _render_evaluation(evaluation[one.id]) if one.id in evaluation else ()
        if one.role is ModelRole.SALIENCE and one.state is ModelState.ACTIVE:
            lines.append("  No guard looks at it; retire takes it out, rollback for good.")
    return "\n".join(map(inert_line, lines)) or _render_absence(reply)


def _render_absence(reply: ModelsResponse) -> str:
    """Say what serves instead if there is no model."""
    reranker_text, salience_text = (
        "fixed weights order every recall",
        "a rule says how much what is new matters",
    )
    if reply.op == "guards":
        return f"No reranker serves: {reranker_text}."
    match reply.role:
        case ModelRole.RERANKER:
            return f"No reranker: {reranker_text}."
        case ModelRole.SALIENCE:
            return f"No model of salience: {salience_text}."
        case None:
            return f"No model: {reranker_text}, and {salience_text}."


def _render_model(one: ModelView) -> str:
    parts = [one.id, one.role, one.state]
    if one.percent is not None:
        parts.append(f"{one.percent:g}% of sessions")
    if one.allow:
        parts.append(f"and {', '.join(one.allow)}")
    parts.append(f"since {show_instant(one.since)}")
    return " | ".join([*parts, *([one.reason] if one.reason else [])])


def _render_card(one: ModelView) -> Iterator[str]:
    yield f"made {show_instant(one.made_at)}, artifact {one.digest or 'dropped'}"
    yield f"after {one.parent or 'fixed weights'}"
    yield f"features: {', '.join(one.features or ())}"
    for name, value in (one.told or {}).items():
        yield f"{name}: {value if isinstance(value, str) else json.dumps(value)}"
    for move in one.moves or ():
        yield f"{show_instant(move.at)} | {move.agent or 'unknown'} | {move.to} | {move.why}"


def _render_evaluation(one: EvaluationView) -> Sequence[str]:
    baseline = "as a canary" if one.state == "active" else "control"
    return (
        f"  guards: {one.verdict.replace('_', ' ')}: {one.reason}",
        f"  model: {_render_figures(one.served)}; {one.riskier} recalls showed more of low trust",
        f"  {baseline}: {_render_figures(one.control)}",
    )


def _render_figures(one: Figures) -> str:
    return (
        f"{one.recalls} recalls in {one.sessions} sessions, {one.marked} marked, "
        f"{one.failed} failed; helped {_percent(one.marks)}, mean reciprocal rank "
        f"{_percent(one.order)}, unanswered {_percent(one.unanswered)}; p95 "
        f"{_percent(one.rerank_p95_ms)} ms to order, {_percent(one.recall_p95_ms)} ms in all"
    )


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


_PURPOSES: Final[Mapping[Op, str]] = {
    "list": "List models, the newest first: where each stands and why.",
    "show": "Show the card of a model: what it was made of, how it fared, and its moves.",
    "canary": "Let a model serve a sticky share of the sessions, watched by guards.",
    "promote": "Let a model that has stood its trial serve every session.",
    "rollback": "Take a model out for good; what it had replaced serves again.",
    "retire": "Take a model out of service for no fault of its own.",
    "guards": "Show the figures of what serves, and what the guards make of them.",
    "train": "Ask for the job that makes a new model out of what was marked.",
}

MODEL = Operation(
    name="model",
    title="Model",
    purpose="See what was learnt from use, and say what of it serves: canary, promote, roll back.",
    request=ModelRequest,
    profile=Profile.OPERATOR,
    reply=ModelsResponse,
    handle=_handle,
    render_text=_render,
    role=Role.ADMIN,
    is_destructive=True,
    preview=_preview,
    positional=("op", "id"),
    commands=tuple(
        Command(
            name=f"model {op}",
            purpose=purpose,
            preset={"op": op},
            fields=_ALLOWED[op],
            positional=("id",) if "id" in _ALLOWED[op] else (),
            required=_ALLOWED[op] & _ID if op not in _NEEDS_NO_ID else frozenset(),
            needs_confirmation=op in {"promote", "rollback", "retire"},
        )
        for op, purpose in _PURPOSES.items()
    ),
)
