"""REST: every operation with this transport, as `POST /v1/{operation}`."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Final

import anyio
from fastapi import APIRouter, Body, Depends, Header, Query, Request, Response, Security
from fastapi import Path as InPath
from fastapi.security import APIKeyHeader, HTTPBearer
from starlette.responses import StreamingResponse

from commonbrain.api.dispatch import authorize_call, dispatch, record_call, record_unstarted
from commonbrain.api.operation import Request as OperationRequest
from commonbrain.api.operations import Operation, Transport, load_operations
from commonbrain.api.operations.boot import BOOT
from commonbrain.api.operations.get import GET, ViewName
from commonbrain.api.operations.job import JOB, JobRequest
from commonbrain.api.thread_limiter import enter_lane
from commonbrain.client import Brain
from commonbrain.folders import temporary_folder
from commonbrain.jobs.service import JobsReply
from commonbrain.model.errors import CommonbrainError, InvalidInputError
from commonbrain.model.limits import NAME_CHARS_MAX
from commonbrain.model.scope import Caller, Role
from commonbrain_server.http.authentication import (
    KEY_HEADER,
    RequestAuthenticator,
    credential_of,
)
from commonbrain_server.http.brainstem import DELETE, INSPECT, V0_POSTS, OneQuery, OneRequest
from commonbrain_server.http.description import PROBLEMS, REPEATABLE, SESSION, repeatable
from commonbrain_server.http.hooks import HOOK
from commonbrain_server.http.middleware import JOIN_PATH
from commonbrain_server.http.problems import body_too_large, body_too_slow
from commonbrain_server.http.sessions import SESSION_HEADER, named_session
from commonbrain_server.tenants import AdministerTenant
from commonbrain_server.upload_places import UploadPlaces

SERVED: Final = tuple(one for one in load_operations() if Transport.REST in one.transports)
KEY_FIELD: Final = "idempotency_key"
_Key = Annotated[
    str | None,
    Header(alias="Idempotency-Key", max_length=NAME_CHARS_MAX, description="One per call"),
]
_Session = Annotated[
    str | None,
    Header(
        alias="Commonbrain-Session",
        max_length=NAME_CHARS_MAX,
        description="The agent's session; default: the one that this client started last by "
        "boot with this credential. The response names it; only a named one can be ended.",
    ),
]
_MemoryId = Annotated[str, InPath(alias="id", description="mem_...")]
_KnownTag = Annotated[str | None, Header(alias="If-None-Match")]
_BEARER: Final = HTTPBearer(
    auto_error=False, scheme_name="bearer", description="An API key or a JWT"
)
_KEY: Final = APIKeyHeader(
    name=KEY_HEADER, auto_error=False, scheme_name="key", description="An API key"
)


def caller_dependency(authenticator: RequestAuthenticator) -> Callable[..., Awaitable[Caller]]:
    """Make the dependency that authenticates a request before its body is parsed."""

    async def authenticated_caller(
        *,
        request: Request,
        _bearer: Annotated[object, Security(_BEARER)],
        _key: Annotated[object, Security(_KEY)],
        _session: _Session = None,
    ) -> Caller:
        return await authenticator.admit(request)

    return authenticated_caller


async def run_operation(
    authenticator: RequestAuthenticator,
    operation: Operation[Any, Any],
    *,
    caller: Caller,
    request: Request,
    operation_request: OperationRequest,
) -> Response:
    """Run an operation in a thread and return the reply as JSON."""

    def call() -> Response:
        starts = operation.name == BOOT.name
        brain = authenticator.brain_for(caller, request, starts=starts)
        return _respond(operation, brain, request=request, operation_request=operation_request)

    def record_refusal(error: CommonbrainError, waited_s: float) -> None:
        context = record_call(operation, operation_request, transport=Transport.REST)
        brain = Brain(authenticator.brain.services, caller)
        record_unstarted(context, brain, error=error, waited_s=waited_s)

    return await authenticator.threads.run(call, on_refusal=record_refusal)


def _respond(
    operation: Operation[Any, Any],
    brain: Brain,
    *,
    request: Request,
    operation_request: OperationRequest,
) -> Response:
    reply = dispatch(operation, brain, request=operation_request, transport=Transport.REST)
    body = operation.reply_adapter.dump_json(reply)
    response = Response(body, media_type="application/json")
    if named_session(request) is None and brain.caller.session:
        response.headers[SESSION_HEADER] = brain.caller.session
    return response


def register_routes(authenticator: RequestAuthenticator) -> APIRouter:
    """Build the routes of version 1."""
    router = APIRouter(prefix="/v1", tags=["v1"], responses=PROBLEMS)
    for operation in SERVED:
        add_route(
            router,
            authenticator,
            operation=operation,
            path=f"/{operation.name}",
            name=operation.name,
        )
    # Between a hook and a server of the same version alone, so it is not described.
    router.add_api_route(
        f"/{HOOK.name}",
        _endpoint(authenticator, HOOK),
        methods=["POST"],
        response_model=HOOK.reply,
        include_in_schema=False,
    )
    router.add_api_route(
        "/memories/{id}",
        _memory_route(authenticator),
        response_model=GET.reply,
        **response_of(GET, "memory"),
    )
    return router


def add_route(
    router: APIRouter,
    authenticator: RequestAuthenticator,
    *,
    operation: Operation[Any, Any],
    path: str,
    name: str,
) -> None:
    """Add an operation as a POST whose body is the request and whose response is the reply."""
    router.add_api_route(
        path,
        _endpoint(authenticator, operation),
        methods=["POST"],
        response_model=operation.reply,
        **response_of(operation, name),
    )


def response_of(operation: Operation[Any, Any], name: str) -> dict[str, Any]:
    """Return the OpenAPI description of a route."""
    return {
        "summary": operation.title,
        "description": f"{operation.purpose} Takes the role {operation.role}.",
        "operation_id": name,
        "responses": {200: {"headers": SESSION}},
        "openapi_extra": {REPEATABLE: repeatable(operation)},
    }


def _endpoint(
    authenticator: RequestAuthenticator, operation: Operation[Any, Any]
) -> Callable[..., Awaitable[Response]]:
    takes_key = KEY_FIELD in operation.request.model_fields

    async def endpoint(
        *, request: Request, caller: Caller, body: OperationRequest, key: str | None = None
    ) -> Response:
        return await run_operation(
            authenticator,
            operation,
            caller=caller,
            request=request,
            operation_request=with_idempotency_key(body, key),
        )

    # FastAPI reads a route's parameters from its signature, so it is built from the operation.
    is_needed = any(field.is_required() for field in operation.request.model_fields.values())
    body = Body() if is_needed else Body(default_factory=operation.request)
    parts: dict[str, Any] = {
        "request": Request,
        "caller": Annotated[Caller, Depends(caller_dependency(authenticator))],
        "body": Annotated[operation.request, body],
        **({"key": _Key} if takes_key else {}),
    }
    endpoint.__signature__ = signature_for(parts)  # type: ignore[attr-defined]
    return endpoint


def signature_for(parts: Mapping[str, Any]) -> Signature:
    """Make the signature of a function with these keyword parameters."""
    return Signature(
        [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                annotation=annotation,
                default=None if annotation is _Key else Parameter.empty,
            )
            for name, annotation in parts.items()
        ]
    )


def with_idempotency_key(operation_request: OperationRequest, key: str | None) -> OperationRequest:
    """Copy the key of the header into the request.

    Raises:
        InvalidInputError: the body has a different key.

    """
    if key is None:
        return operation_request
    given_key = getattr(operation_request, KEY_FIELD)
    if given_key not in {None, key}:
        raise InvalidInputError(
            "Header and body name different idempotency keys.", hint="Give one of them."
        )
    return operation_request.model_copy(update={KEY_FIELD: key})


def _memory_route(authenticator: RequestAuthenticator) -> Callable[..., Awaitable[Response]]:
    """Make the route that returns one memory, or 304 if the caller's copy is current."""
    fetched = GET.request.model_fields["views"]

    async def show(
        *,
        request: Request,
        caller: Annotated[Caller, Depends(caller_dependency(authenticator))],
        id_: _MemoryId,
        views: Annotated[list[ViewName], Query(description=fetched.description)] = [],  # noqa: B006
        known: _KnownTag = None,
    ) -> Response:
        response = await run_operation(
            authenticator,
            GET,
            caller=caller,
            request=request,
            operation_request=GET.request(id=[id_], views=views),
        )
        return _unless_known(response, known)

    return show


def _unless_known(response: Response, known: str | None) -> Response:
    """Add the tag of a response; send 304 if the caller's copy has the same tag."""
    tag = f'"{sha256(response.body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    known_tags = {one.strip().removeprefix("W/") for one in (known or "").split(",")}
    if tag in known_tags:
        return Response(status_code=304, headers=headers)
    response.headers.update(headers)
    return response


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReply:
    """The key that an invitation was exchanged for; it cannot be shown again."""

    key: str
    tenant: str
    agent: str


def register_invitations(authenticator: RequestAuthenticator) -> APIRouter:
    """Build the route that exchanges an invitation for a key."""
    router = APIRouter(tags=["v1"], responses=PROBLEMS)

    async def join(
        request: Request, _invitation: Annotated[object, Security(_BEARER)]
    ) -> JoinReply:
        enter_lane(None)
        address = request.client.host if request.client else None
        return await authenticator.threads.run(
            partial(_join, authenticator, credential_of(request), address=address)
        )

    router.add_api_route(
        JOIN_PATH,
        join,
        methods=["POST"],
        response_model=JoinReply,
        operation_id="join",
        summary="Join",
        description="Exchange an invitation, the credential, for a key of its agent, once.",
        openapi_extra={REPEATABLE: False},
    )
    return router


def _join(
    authenticator: RequestAuthenticator, credential: str | None, *, address: str | None
) -> JoinReply:
    caller = authenticator.access.invited(credential, address=address)
    new = AdministerTenant(authenticator.brain.services, caller).accept_invitation()
    return JoinReply(key=str(new.text), tenant=caller.tenant, agent=caller.agent)


def register_compat_routes(authenticator: RequestAuthenticator) -> APIRouter:
    """Build the routes of version 0, with the bodies of Brainstem."""
    router = APIRouter(prefix="/v0/memory", tags=["v0"], responses=PROBLEMS)
    for operation in V0_POSTS:
        path, name = f"/{operation.name}", f"v0_{operation.name}"
        add_route(router, authenticator, operation=operation, path=path, name=name)
    for method, operation, name in (("GET", INSPECT, "v0_memory"), ("DELETE", DELETE, "v0_forget")):
        router.add_api_route(
            "/{id}",
            _v0_memory_route(authenticator, operation),
            methods=[method],
            response_model=operation.reply,
            **response_of(operation, name),
        )
    return router


def _v0_memory_route(
    authenticator: RequestAuthenticator, operation: Operation[Any, Any]
) -> Callable[..., Awaitable[Response]]:
    async def act(
        *,
        request: Request,
        caller: Annotated[Caller, Depends(caller_dependency(authenticator))],
        id_: _MemoryId,
        given: Annotated[OneQuery, Query()],
        known: _KnownTag = None,
    ) -> Response:
        response = await run_operation(
            authenticator,
            operation,
            caller=caller,
            request=request,
            operation_request=OneRequest(id=id_, **given.model_dump()),
        )
        return _unless_known(response, known) if operation.is_read_only else response

    return act


IMPORT_PATH: Final = "/v1/import"
_BYTES: Final = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_FORM_TYPES: Final = {
    "",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "text/plain",
}
"""What a page of another origin may send without asking (Fetch standard, 2.2.2)."""
_NameQuery = Query(max_length=NAME_CHARS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedFile:
    """A temporary file, which is deleted with its folder when its resources are closed."""

    path: Path
    resources: ExitStack


@dataclass(frozen=True, slots=True, kw_only=True)
class FileUploads:
    """Receives files from clients into temporary files, a few at a time."""

    bytes_max: int
    seconds_max: float
    folder: Path | None = None
    """Where files arrive; None is the folder of temporary files."""
    places: UploadPlaces = field(default_factory=UploadPlaces)

    @asynccontextmanager
    async def receive(self, request: Request, caller: Caller) -> AsyncGenerator[ReceivedFile]:
        """Write a body to a file while it arrives.

        The file is deleted when the block ends, unless its resources were moved with `pop_all` to
        a call that may outlast the block.

        Raises:
            BodyTooLargeError: the body is too large.
            UnavailableError: `busy`, others send files now; `deadline`, it arrived too slowly;
                `io_error`, the disk is full.

        """
        with ExitStack() as resources:
            resources.enter_context(self.places.take(caller))
            # The file gets a fixed path, because its name is untrusted.
            path = resources.enter_context(temporary_folder(self.folder)) / "sent"
            try:
                async with asyncio.timeout(self.seconds_max):
                    await self._write(request, path)
            except TimeoutError:
                raise body_too_slow() from None
            yield ReceivedFile(path=path, resources=resources)

    async def _write(self, request: Request, path: Path) -> None:
        size = 0
        async with await anyio.open_file(path, "wb") as file:
            async for part in request.stream():
                size += len(part)
                if size > self.bytes_max:
                    raise body_too_large(self.bytes_max)
                await file.write(part)


def register_file_routes(authenticator: RequestAuthenticator, uploads: FileUploads) -> APIRouter:
    """Build the routes that send and receive files."""
    router = APIRouter(tags=["v1"], responses=PROBLEMS)
    router.add_api_route(
        IMPORT_PATH,
        _import_route(authenticator, uploads),
        methods=["POST"],
        response_model=JobsReply,
        operation_id="import",
        summary="Import",
        description="Send a file, or a folder as a zip; a job imports it. Takes the role writer.",
        openapi_extra={
            "requestBody": {"required": True, "content": _BYTES},
            REPEATABLE: False,
        },
    )
    router.add_api_route(
        "/v1/exports/{id}",
        _fetch_route(authenticator),
        operation_id="export",
        summary="Export",
        description="Download the archive of an export job, for a day. Takes the role admin.",
        response_class=StreamingResponse,
        openapi_extra={REPEATABLE: True},
        responses={200: {"description": "The archive", "content": _BYTES}},
    )
    return router


def _import_route(
    authenticator: RequestAuthenticator, uploads: FileUploads
) -> Callable[..., Awaitable[Response]]:
    async def import_(
        *,
        request: Request,
        caller: Annotated[Caller, Depends(caller_dependency(authenticator))],
        format_: Annotated[str, Query(alias="format", description="conversations, ...")],
        name: Annotated[str, Query(max_length=NAME_CHARS_MAX, description="Of the file")] = "file",
        project: Annotated[str | None, _NameQuery] = None,
    ) -> Response:
        operation_request = JobRequest(op="run", kind="import")

        def admit() -> Brain:
            brain = authenticator.brain_for(caller, request)
            try:
                authorize_call(JOB, brain, request=operation_request, transport=Transport.REST)
                brain.jobs.check_may_import(format_)
            except CommonbrainError:
                # The refusal is recorded as that of any other call.
                run(brain, partial(_check_may_import, format_=format_))
                raise
            return brain

        def run(brain: Brain, handle: Callable[[Brain], JobsReply]) -> Response:
            def on_call(brain: Brain, _: JobRequest) -> JobsReply:
                return handle(brain)

            operation = replace(JOB, handle=on_call)
            return _respond(operation, brain, request=request, operation_request=operation_request)

        own = Path(name).name or "file"
        brain = await authenticator.threads.run(admit)
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type in _FORM_TYPES:
            raise InvalidInputError(
                "The body is a file: its Content-Type is missing, or that of a form or plain text.",
                code="content_type",
                hint="Send it with Content-Type: application/octet-stream.",
            )
        async with uploads.receive(request, caller) as file:

            def import_upload(brain: Brain) -> JobsReply:
                job = brain.jobs.import_(format_, file.path, name=own, project=project)
                return JobsReply(jobs=(job,))

            # The thread may read the file for longer than this request waits.
            close = file.resources.pop_all().close
            return await authenticator.threads.run(partial(run, brain, import_upload), on_end=close)

    return import_


def _check_may_import(brain: Brain, *, format_: str) -> JobsReply:
    brain.jobs.check_may_import(format_)
    return JobsReply(jobs=())


def _fetch_route(authenticator: RequestAuthenticator) -> Callable[..., Awaitable[Response]]:
    async def fetch(
        *,
        request: Request,
        caller: Annotated[Caller, Depends(caller_dependency(authenticator))],
        id_: Annotated[str, InPath(alias="id", description="job_...")],
    ) -> Response:
        archive_operation: Any = replace(JOB, role=Role.ADMIN, handle=_archive)
        operation_request = JobRequest(op="show", id=id_)
        archive = await authenticator.threads.run(
            lambda: dispatch(
                archive_operation,
                authenticator.brain_for(caller, request),
                request=operation_request,
                transport=Transport.REST,
            )
        )
        return StreamingResponse(
            authenticator.brain.services.uploads.read(archive),
            media_type="application/octet-stream",
            headers={"Content-Disposition": f'attachment; filename="{archive.name}"'},
        )

    return fetch


def _archive(brain: Brain, operation_request: JobRequest) -> object:
    return brain.jobs.archive(operation_request.id or "")
