"""The operation train, under the name that other memory servers use.

See `model train` and `job`.
"""

from pydantic import Field

from commonbrain.api.operation import Operation, Request, Transport
from commonbrain.api.operations.job import render_job
from commonbrain.client import Brain
from commonbrain.jobs.service import JobView
from commonbrain.model.limits import LOOKBACK_DAYS_DEFAULT, LOOKBACK_DAYS_MAX, LOOKBACK_DAYS_MIN
from commonbrain.model.scope import Role


class TrainRequest(Request):
    """The data to train on."""

    lookback_days: int = Field(
        default=LOOKBACK_DAYS_DEFAULT,
        ge=LOOKBACK_DAYS_MIN,
        le=LOOKBACK_DAYS_MAX,
        description=f"Recalls of so many days, {LOOKBACK_DAYS_MIN} to {LOOKBACK_DAYS_MAX}",
    )


def _handle(brain: Brain, request: TrainRequest) -> JobView:
    return brain.jobs.run("train_reranker", request.model_dump(exclude_defaults=True))


TRAIN = Operation(
    name="train",
    title="Train",
    purpose="Ask for the job that learns from marked recalls how to order what is found.",
    request=TrainRequest,
    reply=JobView,
    handle=_handle,
    render_text=render_job,
    role=Role.ADMIN,
    transports=frozenset({Transport.REST}),
    is_idempotent=True,
)
