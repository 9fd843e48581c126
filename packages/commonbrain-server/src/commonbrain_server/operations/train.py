"""The operation train, compatible with other memory servers; see also `model train` and `job`."""

from pydantic import Field

from commonbrain.api.operation import Operation, Request, Transport
from commonbrain.api.operations.job import render_job
from commonbrain.client import Brain
from commonbrain.jobs.service import JobView
from commonbrain.model.limits import LOOKBACK_DAYS_DEFAULT, LOOKBACK_DAYS_MAX, LOOKBACK_DAYS_MIN
from commonbrain.model.model_card import ModelRole
from commonbrain.model.scope import Role


class TrainRequest(Request):
    """The model to train, and the period to learn from."""

    model_kind: ModelRole = Field(default=ModelRole.RERANKER, description="reranker or salience")
    lookback_days: int = Field(
        default=LOOKBACK_DAYS_DEFAULT,
        ge=LOOKBACK_DAYS_MIN,
        le=LOOKBACK_DAYS_MAX,
        description=f"Recalls of the last days, {LOOKBACK_DAYS_MIN} to {LOOKBACK_DAYS_MAX}",
    )


def _handle(brain: Brain, request: TrainRequest) -> JobView:
    options = request.model_dump(include={"lookback_days"}, exclude_defaults=True)
    return brain.jobs.run(f"train_{request.model_kind}", options)


TRAIN = Operation(
    name="train",
    title="Train",
    purpose="Start the job that trains a reranker or a salience model from use.",
    request=TrainRequest,
    reply=JobView,
    handle=_handle,
    render_text=render_job,
    role=Role.ADMIN,
    transports=frozenset({Transport.REST}),
    is_idempotent=True,
)
