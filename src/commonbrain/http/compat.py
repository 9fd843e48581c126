"""The mirror under `/v0/memory`: the same operations by the paths of other memory servers."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from commonbrain.api.operations.forget import FORGET
from commonbrain.api.operations.get import GET
from commonbrain.api.operations.recall import RECALL
from commonbrain.api.operations.reflect import REFLECT
from commonbrain.api.operations.remember import REMEMBER
from commonbrain.api.operations.train import TRAIN
from commonbrain.http.authentication import RequestAuthenticator
from commonbrain.http.rest import (
    PROBLEMS,
    add_route,
    caller_dependency,
    describing,
    response_of,
    run_operation,
)
from commonbrain.model.scope import Caller


def register_compat_routes(authenticator: RequestAuthenticator) -> APIRouter:
    """Draw the routes."""
    router = APIRouter(prefix="/v0/memory", tags=["v0"], responses=PROBLEMS)
    for operation in (REMEMBER, RECALL, REFLECT, TRAIN):
        path, name = f"/{operation.name}", f"v0_{operation.name}"
        add_route(router, authenticator, operation=operation, path=path, name=name)
    router.add_api_route(
        "/{id}",
        describing(authenticator),
        response_model=GET.reply,
        **response_of(GET, "v0_memory"),
    )
    router.add_api_route(
        "/{id}",
        _forget_route(authenticator),
        methods=["DELETE"],
        response_model=FORGET.reply,
        **response_of(FORGET, "v0_forget"),
    )
    return router


def _forget_route(authenticator: RequestAuthenticator) -> Callable[..., Awaitable[Response]]:
    async def forget(
        *,
        request: Request,
        caller: Annotated[Caller, Depends(caller_dependency(authenticator))],
        id_: Annotated[str, Path(alias="id", description="mem_...")],
        reason: Annotated[str, Query(description="Why; it is kept")] = "Deleted by its id.",
    ) -> Response:
        operation_request = FORGET.request(ids=[id_], reason=reason)
        done = await run_operation(
            authenticator,
            FORGET,
            caller=caller,
            request=request,
            operation_request=operation_request,
        )
        return Response(done, media_type="application/json")

    return forget
