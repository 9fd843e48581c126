"""Errors as Problem Details (RFC 9457)."""

import logging
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from commonbrain.api.errors import to_transport_error
from commonbrain.model.errors import (
    CommonbrainError,
    InvalidInputError,
    NotFoundError,
    StoreCorruptError,
    UnavailableError,
)
from commonbrain.model.limits import INVALID_FIELDS_SHOWN_MAX

MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER_S: Final = 2
"""When to retry after an outage; a guess that avoids many early retries."""
_CODES: Final = {404: "no_such_path", 405: "method_not_allowed", 413: "limit_exceeded"}
_INTERNAL: Final = CommonbrainError(
    "An internal error occurred.", code="internal", hint="The server's log shows the cause."
)


class ProblemDetail(BaseModel):
    """One invalid field."""

    field: str = Field(description="The path of the field, joined by dots")
    message: str


class Problem(BaseModel):
    """An error and the next step."""

    type: str = Field(description="urn:commonbrain: and the code")
    title: str
    status: int
    detail: str
    code: str = Field(description="Stable, for programs")
    hint: str = Field(description="The next step")
    errors: list[ProblemDetail] | None = Field(default=None, description="The invalid fields")


def problem_schemas() -> dict[str, Any]:
    """Return the schemas of a problem by name."""
    schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    return {**schema.pop("$defs"), "Problem": schema}


def problem(
    error: CommonbrainError, *, status: int | None = None, wrong: list[ProblemDetail] | None = None
) -> Response:
    """Convert an error to an HTTP response."""
    is_body = isinstance(error, BodyTooLargeError)
    usual_status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE if is_body else None
    status = status or usual_status or to_transport_error(error).http_status
    body = Problem(
        type=f"urn:commonbrain:{error.code}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=error.message,
        code=error.code,
        hint=error.hint,
        errors=wrong,
    )
    # A limit error has its own delay; the length of an outage is unknown.
    usual = RETRY_AFTER_S if isinstance(error, UnavailableError) else None
    waits: int | None = getattr(error, "retry_after_s", usual)
    headers = None if waits is None else {"Retry-After": str(waits)}
    return JSONResponse(
        body.model_dump(exclude_none=True), status, headers=headers, media_type=MEDIA_TYPE
    )


class BodyTooLargeError(InvalidInputError):
    """The body has more bytes than allowed; nothing was done."""

    default_code = "limit_exceeded"


def body_too_large(bytes_max: int) -> BodyTooLargeError:
    """Return the error for a body above its limit, declared or not."""
    return BodyTooLargeError(
        f"The body has more than {bytes_max} bytes.",
        hint="Send it in parts.",
    )


def body_too_slow() -> UnavailableError:
    """Return the error for a body that is not complete within its time."""
    return UnavailableError("The body did not arrive in time.", code="deadline", hint="Resend.")


def malformed(error: RequestValidationError) -> Response:
    """List the first invalid fields without repeating their values."""
    errors = error.errors()
    wrong = [
        ProblemDetail(field=".".join(str(part) for part in one["loc"]), message=one["msg"])
        for one in errors[:INVALID_FIELDS_SHOWN_MAX]
    ]
    is_json = not any(one["type"] == "json_invalid" for one in errors)
    more = len(errors) - len(wrong)
    unfit = f"The request does not fit its schema{f'; {more} more errors' if more else ''}."
    error_text = InvalidInputError(
        unfit if is_json else "The body is not JSON.",
        hint="GET /openapi.json describes each operation.",
    )
    return problem(error_text, status=None if is_json else HTTPStatus.BAD_REQUEST, wrong=wrong)


def framework_problem(error: HTTPException) -> Response:
    """Convert an error of the framework, such as an unknown path or method."""
    code = _CODES.get(error.status_code, "invalid")
    error_type = NotFoundError if error.status_code == HTTPStatus.NOT_FOUND else InvalidInputError
    framework_error = error_type(
        f"{error.detail}.", code=code, hint="GET /openapi.json lists all paths."
    )
    response = problem(framework_error, status=error.status_code)
    response.headers.update(error.headers or {})
    return response


def internal_problem() -> Response:
    """Return a response without details of an internal error, which only the log contains."""
    return problem(_INTERNAL)


_LOG: Final = logging.getLogger(__name__)
_HINT: Final = (
    "The server's log shows the cause. Retry later; a write with the same idempotency key."
)
_NEEDED: Final = {
    "store": "The server's store",
    "queue": "The server's queue",
    "embedder": "The server's embedder",
    "extractor": "The server's extractor",
    "io": "Space for temporary files",
}
"""By the first word of a code; other outages are not caused by the server."""


@dataclass(slots=True)
class OutageHandler:
    """Logs each outage once until it is over."""

    reported: set[str] = field(default_factory=set[str])
    """Codes of the current outages."""

    def redact(self, error: CommonbrainError) -> CommonbrainError:
        """Replace an outage's message, which may name files and hosts."""
        needed = _NEEDED.get(error.code.partition("_")[0])
        if needed is None or not isinstance(error, UnavailableError | StoreCorruptError):
            return error
        self.record(error)
        return type(error)(f"{needed} is not available.", code=error.code, hint=_HINT)

    def record(self, error: CommonbrainError) -> None:
        """Log an outage, unless it is logged already."""
        if error.code not in self.reported:
            self.reported.add(error.code)
            _LOG.warning("not ready: %s: %s", error.code, error)

    def clear(self) -> None:
        """Log the end of all outages, if there are any."""
        if self.reported:
            self.reported.clear()
            _LOG.warning("ready again")
