"""The mirror under `/v0/memory`: the same operations by the paths of other memory servers."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from commonbrain.domain.errors import CommonbrainError
from commonbrain.domain.scope import Caller
from commonbrain.interfaces.operations.forget import FORGET
from commonbrain.interfaces.operations.get import GET
from commonbrain.interfaces.operations.recall import RECALL
from commonbrain.interfaces.operations.remember import REMEMBER
from commonbrain.interfaces.server.admission import Desk
from commonbrain.interfaces.server.problems import problem
from commonbrain.interfaces.server.rest import (
    PROBLEMS,
    add,
    admitting,
    carry_out,
    showing,
    told_of,
)

ABSENT: Final = {
    "reflect": "Nothing here thinks over what is stored yet; recall, or ask trace why.",
}
"""What other servers have and this one has not, with what to do instead."""
_NOT_BUILT: Final = 501


def draw_mirror(desk: Desk) -> APIRouter:
    """Draw the routes."""
    router = APIRouter(prefix="/v0/memory", tags=["v0"], responses=PROBLEMS)
    for operation in (REMEMBER, RECALL):
        path, name = f"/{operation.name}", f"v0_{operation.name}"
        add(router, desk, operation=operation, path=path, name=name)
    for name, told in ABSENT.items():
        # What is not built is not described as if it were.
        router.add_api_route(
            f"/{name}", _absent(desk, told), methods=["POST"], include_in_schema=False
        )
    router.add_api_route(
        "/{id}", showing(desk), response_model=GET.reply, **told_of(GET, "v0_memory")
    )
    router.add_api_route(
        "/{id}",
        _forgetting(desk),
        methods=["DELETE"],
        response_model=FORGET.reply,
        **told_of(FORGET, "v0_forget"),
    )
    return router


def _absent(desk: Desk, told: str) -> Callable[..., Awaitable[Response]]:
    async def absent(_caller: Annotated[Caller, Depends(admitting(desk))]) -> Response:
        error = CommonbrainError("This is not built.", code="not_built", hint=told)
        return problem(error, status=_NOT_BUILT)

    return absent


def _forgetting(desk: Desk) -> Callable[..., Awaitable[Response]]:
    async def forget(
        *,
        request: Request,
        caller: Annotated[Caller, Depends(admitting(desk))],
        id_: Annotated[str, Path(alias="id", description="mem_...")],
        reason: Annotated[str, Query(description="Why; it is kept")] = "Deleted by its id.",
    ) -> Response:
        asked = FORGET.request(ids=[id_], reason=reason)
        done = await carry_out(desk, FORGET, caller=caller, request=request, asked=asked)
        return Response(done, media_type="application/json")

    return forget
