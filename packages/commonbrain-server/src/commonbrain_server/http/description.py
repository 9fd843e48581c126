"""The OpenAPI description of REST.

FastAPI describes each route by itself. The schemas and responses that routes share get names here,
because generators of clients make a type of each name.
"""

from typing import Any, Final

from commonbrain.api.operation import Operation, VerbRequest
from commonbrain_server.http.problems import MEDIA_TYPE, problem_schemas

_SCHEMAS: Final = "#/components/schemas/"
_RESPONSES: Final = "#/components/responses/"
REPEATABLE: Final = "x-repeatable"
"""Whether a request may run twice: true, false, or the list of the values of `op` that may."""
SERVERS: Final = (
    {"url": "/", "description": "The server that serves this description"},
    {"url": "http://127.0.0.1:8377", "description": "A server on this machine"},
)
_RETRY_AFTER: Final = {
    "Retry-After": {"description": "Seconds to wait", "schema": {"type": "integer", "minimum": 0}}
}
SESSION: Final = {
    "Commonbrain-Session": {
        "description": "The session of the call, if the request named none",
        "schema": {"type": "string"},
    }
}
_ERRORS: Final = {
    400: ("BadRequest", "The body is not JSON"),
    401: ("Unauthorized", "The credential is missing or not valid"),
    403: ("Forbidden", "The caller is not allowed to"),
    404: ("NotFound", "Not found, or the caller may not see it"),
    408: ("RequestTimeout", "The body did not arrive in time"),
    413: ("ContentTooLarge", "The body is too large"),
    421: ("MisdirectedRequest", "The server does not serve this host"),
    422: ("UnprocessableContent", "The request is not valid; nothing was done"),
    429: ("TooManyRequests", "A rate limit or quota is used up; wait for Retry-After"),
    500: ("InternalServerError", "An internal error occurred"),
    503: ("ServiceUnavailable", "A service that is needed does not answer; retry"),
}
PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"$ref": f"{_RESPONSES}{name}"} for status, (name, _) in _ERRORS.items()
}
"""The error responses of every route, by status."""


def repeatable(operation: Operation[Any, Any]) -> bool | list[str]:
    """Return whether requests may run twice, or the verbs whose requests may."""
    # A boot is read-only for agents, but starts another session each time.
    # A client without a session starts one with each boot.
    if operation.is_idempotent and operation.name != "boot":
        return True
    if issubclass(operation.request, VerbRequest):
        return [op for op, verb in operation.request.VERBS.items() if verb.is_read_only]
    return False


def complete(described: dict[str, Any]) -> dict[str, Any]:
    """Add the shared schemas and responses to FastAPI's description, and name its verbs."""
    components = described["components"]
    schemas: dict[str, Any] = components["schemas"]
    for name, schema in list(schemas.items()):
        if "discriminator" in schema:
            _name_verbs(name, schema, schemas=schemas)
    routes = (route for methods in described["paths"].values() for route in methods.values())
    for responses in (route["responses"] for route in routes):
        for status in responses.keys() & {str(one) for one in PROBLEMS}:
            # FastAPI adds the phrase of the status, which depends on the version of Python.
            responses[status] = dict(PROBLEMS[int(status)])
    schemas.update(problem_schemas())
    components["schemas"] = dict(sorted(schemas.items()))
    components["responses"] = {
        name: _error_response(status, description)
        for status, (name, description) in _ERRORS.items()
    }
    return described


def _name_verbs(name: str, union: dict[str, Any], *, schemas: dict[str, Any]) -> None:
    """Move the objects of a union into schemas of their own, named by request and verb."""
    stem = name.removesuffix("Request")
    mapping: dict[str, str] = {}
    for verb in union["oneOf"]:
        op = verb["properties"]["op"]["const"]
        own = f"{stem}{op.title().replace('_', '')}Request"
        schemas[own] = {**verb, "title": own}
        mapping[op] = f"{_SCHEMAS}{own}"
    union["oneOf"] = [{"$ref": reference} for reference in mapping.values()]
    union["discriminator"]["mapping"] = mapping


def _error_response(status: int, description: str) -> dict[str, Any]:
    return {
        "description": description,
        "content": {MEDIA_TYPE: {"schema": {"$ref": f"{_SCHEMAS}Problem"}}},
        **({"headers": _RETRY_AFTER} if status in {429, 503} else {}),
    }
