"""The page's part of models: their screen under Admin, forms and the card of the health screen."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from commonbrain.client import Brain
from commonbrain.model.model_card import SERVING, ModelRole, ModelState
from commonbrain.web.screens.screen import PagePart, admin_screen
from commonbrain.web.visit import Visit
from commonbrain_learn.model_registry import (
    EvaluationView,
    ModelsResponse,
    ModelView,
    models_of,
)
from commonbrain_learn.operations import MODEL, ModelRequest

_REASON: Final = "undone on the page"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsView:
    """A page of models, and one of them in full."""

    page: ModelsResponse
    shown: ModelView | None
    guards: tuple[EvaluationView, ...]
    """The guards' verdicts on models in service."""
    roles: tuple[ModelRole, ...] = tuple(ModelRole)


def _load_models(visit: Visit) -> ModelsView:
    page = visit.call(MODEL, ModelRequest(cursor=visit.text("cursor") or None))
    shown: ModelView | None = None
    if id_ := visit.text("id"):
        [shown] = visit.call(MODEL, ModelRequest(op="show", id=id_)).models
    is_serving = any(one.state in SERVING for one in page.models)
    guards = visit.call(MODEL, ModelRequest(op="guards")).guards if is_serving else ()
    return ModelsView(page=page, shown=shown, guards=guards or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCardView:
    """The models in service, and the guards' verdicts on them."""

    models: tuple[ModelView, ...]
    guards: tuple[EvaluationView, ...]


def _load_card(visit: Visit) -> ModelCardView:
    models = visit.call(MODEL, ModelRequest()).models
    serving = tuple(one for one in models if one.state in SERVING)
    guards = visit.call(MODEL, ModelRequest(op="guards")).guards if serving else ()
    return ModelCardView(models=serving, guards=guards or ())


def _undo_fields(brain: Brain, request: ModelRequest) -> Mapping[str, str] | None:
    if request.op != "canary":
        # A rollback is final, and what a promotion replaced is back only after one.
        return None
    model_id = request.id or ""
    [model] = models_of(brain).show(model_id).models
    if model.state is not ModelState.CANARY:
        return {"op": "retire", "id": model_id, "reason": _REASON}
    served = {"percent": f"{model.percent:g}", "allow": ",".join(model.allow)}
    return {"op": "canary", "id": model_id, **served, "force": "true", "reason": _REASON}


MODELS_PART: Final = PagePart(
    operation="model",
    package="commonbrain_learn",
    screens=(admin_screen("Models", _load_models),),
    undo_fields=_undo_fields,
    cards={"health": _load_card},
)
