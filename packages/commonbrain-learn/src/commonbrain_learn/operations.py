"""The operation model: trained models, which of them serve, and their guards."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final, Literal

from pydantic import Field

from commonbrain.api.operation import Command, Cursor, Operation, Profile, Verb, VerbRequest
from commonbrain.client import Brain
from commonbrain.model.escaping import inert_line
from commonbrain.model.limits import CANARY_AGENTS_MAX, MODELS_SHOWN_MAX
from commonbrain.model.model_card import ModelRole, ModelState
from commonbrain.model.paging import more_line
from commonbrain.model.scope import Role
from commonbrain.model.timestamps import show_instant
from commonbrain_learn.model_registry import (
    EvaluationView,
    ModelsResponse,
    ModelView,
    TransitionOptions,
    models_of,
)
from commonbrain_learn.outcomes import Figures
from commonbrain_learn.rollout import PERCENT_DEFAULT

Op = Literal["list", "show", "canary", "promote", "rollback", "retire", "guards", "train"]


_MOVE: Final = ("reason", "dry_run")


class ModelRequest(VerbRequest):
    """The verb and its arguments."""

    VERBS: ClassVar = {
        "list": Verb(optional=("role", "limit", "cursor"), is_read_only=True),
        "show": Verb(required=("id",), is_read_only=True),
        "canary": Verb(required=("id",), optional=("percent", "allow", "force", *_MOVE)),
        "promote": Verb(required=("id",), optional=("force", *_MOVE)),
        "rollback": Verb(required=("id",), optional=_MOVE),
        "retire": Verb(required=("id",), optional=_MOVE),
        "guards": Verb(optional=("id",), is_read_only=True),
        "train": Verb(optional=("role",)),
    }

    op: Op = Field(
        default="list",
        description="canary: serve a share of the sessions; promote: serve all; guards: their "
        "verdict on serving models; train: make a new one",
    )
    id: str | None = Field(default=None, description="mdl_...; not for list and train")
    role: ModelRole | None = Field(default=None, description="list, train: only of these")
    percent: float = Field(
        default=PERCENT_DEFAULT, ge=0, le=100, description="canary: share of sessions, sticky"
    )
    allow: list[str] = Field(
        default=[],
        max_length=CANARY_AGENTS_MAX,
        description="canary: agents that it always serves",
    )
    reason: str | None = Field(default=None, description="The reason, in a sentence; stored")
    force: bool = Field(
        default=False, description="canary, promote: even if not proven; needs a reason"
    )
    dry_run: bool = Field(default=False, description="Show the change, but do not make it")
    limit: int = Field(default=MODELS_SHOWN_MAX, description=f"list: 1 to {MODELS_SHOWN_MAX}")
    cursor: Cursor = None


def _handle(brain: Brain, request: ModelRequest) -> ModelsResponse:
    return _CALLS[request.op](brain, request)


def _canary(brain: Brain, request: ModelRequest) -> ModelsResponse:
    return models_of(brain).canary(
        request.id or "",
        percent=request.percent,
        allow=request.allow,
        move=_transition_options(request),
    )


def _train(brain: Brain, request: ModelRequest) -> ModelsResponse:
    job = brain.jobs.run(f"train_{request.role or ModelRole.RERANKER}")
    return replace(models_of(brain)(request.role or ModelRole.RERANKER), op="train", job=job.id)


_CALLS: Final[Mapping[Op, Callable[[Brain, ModelRequest], ModelsResponse]]] = {
    "list": lambda brain, request: models_of(brain)(
        request.role, limit=request.limit, cursor=request.cursor
    ),
    "show": lambda brain, request: models_of(brain).show(request.id or ""),
    "canary": _canary,
    "promote": lambda brain, request: models_of(brain).promote(
        request.id or "", move=_transition_options(request)
    ),
    "rollback": lambda brain, request: models_of(brain).roll_back(
        request.id or "", move=_transition_options(request)
    ),
    "retire": lambda brain, request: models_of(brain).retire(
        request.id or "", move=_transition_options(request)
    ),
    "guards": lambda brain, request: models_of(brain).guards(request.id),
    "train": _train,
}


def _transition_options(request: ModelRequest) -> TransitionOptions:
    return TransitionOptions(
        reason=request.reason, is_forced=request.force, is_preview=request.dry_run
    )


def _preview(brain: Brain, request: ModelRequest) -> ModelsResponse | None:
    """Preview a promotion, rollback or retirement."""
    if request.op not in {"promote", "rollback", "retire"} or request.dry_run:
        return None
    return _handle(brain, request.model_copy(update={"dry_run": True}))


def _render(reply: ModelsResponse) -> str:
    lines = ["Dry run: nothing was changed."] if reply.is_preview else []
    if reply.job is not None:
        lines.append(f"{reply.job} trains a new one: brain job show {reply.job}.")
    evaluation = {one.id: one for one in reply.guards or ()}
    for one in reply.models:
        lines.append(_render_model(one))
        lines += _render_card(one) if one.features is not None else ()
        lines += _render_evaluation(evaluation[one.id]) if one.id in evaluation else ()
        if one.role is ModelRole.SALIENCE and one.state is ModelState.ACTIVE:
            lines.append("  No guard watches it; use retire or rollback to remove it.")
    lines += more_line(reply.more, reply.next)
    return "\n".join(map(inert_line, lines)) or _render_absence(reply)


def _render_absence(reply: ModelsResponse) -> str:
    """Say what is used when there is no model."""
    reranker_text, salience_text = (
        "fixed weights order every recall",
        "a rule scores the importance of new memories",
    )
    if reply.op == "guards":
        return f"No reranker serves: {reranker_text}."
    match reply.role:
        case ModelRole.RERANKER:
            return f"No reranker: {reranker_text}."
        case ModelRole.SALIENCE:
            return f"No salience model: {salience_text}."
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
    "list": "List models, the newest first, with state and reason.",
    "show": "Show a model's card: training data, figures and state changes.",
    "canary": "Serve a fixed share of the sessions with a model; guards watch it.",
    "promote": "Serve every session with a model proven as a canary.",
    "rollback": "Remove a model permanently; the one that it replaced serves again.",
    "retire": "Take a model out of service; it has no fault.",
    "guards": "Show the figures of the serving models, and the guards' verdicts.",
    "train": "Start the job that trains a new model from marked recalls.",
}

MODEL = Operation(
    name="model",
    title="Model",
    purpose="List models trained from use and choose which serve: canary, promote, roll back.",
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
            positional=("id",) if "id" in ModelRequest.arguments_of(op) else (),
            required=frozenset(ModelRequest.VERBS[op].required),
            needs_confirmation=op in {"promote", "rollback", "retire"},
        )
        for op, purpose in _PURPOSES.items()
    ),
)
