"""Calls of operations over REST, answered without the framework that describes them."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from commonbrain.api.operation import Request as OperationRequest
from commonbrain.api.operations import Operation
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.limits import NAME_CHARS_MAX
from commonbrain_server.http.authentication import RequestAuthenticator
from commonbrain_server.http.brainstem import V0_POSTS
from commonbrain_server.http.hooks import HOOK
from commonbrain_server.http.middleware import replay_body
from commonbrain_server.http.rest import KEY_FIELD, SERVED, run_operation, with_idempotency_key
from commonbrain_server.http.sessions import SESSION_HEADER

_POSTS: Final[Mapping[str, Operation[Any, Any]]] = {
    **{f"/v1/{one.name}": one for one in (*SERVED, HOOK)},
    **{f"/v0/memory/{one.name}": one for one in V0_POSTS},
}
_JSON: Final = "application/json"


class OperationsMiddleware:
    """Answers calls with JSON that fits the operation; all others go on to the framework.

    The framework would run the same operation at several times the cost. It describes the routes,
    and says what does not fit.
    """

    def __init__(self, app: ASGIApp, *, authenticator: RequestAuthenticator) -> None:
        self._app = app
        self._authenticator = authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        operation = _POSTS.get(scope["path"]) if is_post else None
        if operation is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        body = await request.body()
        try:
            caller = await self._authenticator.admit(request)
            operation_request = await _fitting(operation, request)
            if operation_request is None:
                await self._app(scope, replay_body(body, receive), send)
                return
            response = await run_operation(
                self._authenticator,
                operation,
                caller=caller,
                request=request,
                operation_request=operation_request,
            )
        except CommonbrainError as error:
            response = self._authenticator.error_response(error, request)
        await response(scope, receive, send)


async def _fitting(operation: Operation[Any, Any], request: Request) -> OperationRequest | None:
    """Return the request of a call; None if the framework has to say what does not fit."""
    headers = request.headers
    key = headers.get("idempotency-key") if KEY_FIELD in operation.request.model_fields else None
    is_long = max(len(headers.get(SESSION_HEADER, "")), len(key or "")) > NAME_CHARS_MAX
    if is_long or headers.get("content-type", "").partition(";")[0].strip() != _JSON:
        return None
    try:
        operation_request = operation.request.model_validate(await request.json())
    except (ValueError, RecursionError):
        # The error of the schema is a ValueError too.
        return None
    return with_idempotency_key(operation_request, key)
