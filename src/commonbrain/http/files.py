"""Files over REST: what is to be imported comes in as a body, what an export wrote goes out."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi import Path as InPath
from starlette.responses import StreamingResponse

from commonbrain.api.dispatch import dispatch
from commonbrain.api.operation import Transport
from commonbrain.api.operations.job import JOB, JobRequest
from commonbrain.client import Brain
from commonbrain.http.authentication import RequestAuthenticator
from commonbrain.http.rest import PROBLEMS, caller_dependency, run_operation
from commonbrain.jobs.service import JobsReply
from commonbrain.model.limits import NAME_CHARS_MAX
from commonbrain.model.scope import Caller, Role

IMPORT_PATH: Final = "/v1/import"
_BYTES: Final = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_NameQuery = Query(max_length=NAME_CHARS_MAX)


def register_file_routes(authenticator: RequestAuthenticator) -> APIRouter:
    """Draw the routes."""
    router = APIRouter(tags=["v1"], responses=PROBLEMS)
    router.add_api_route(
        IMPORT_PATH,
        _import_route(authenticator),
        methods=["POST"],
        response_model=JobsReply,
        operation_id="import",
        summary="Import",
        description="Send a file, or a folder as a zip; a job imports it. Takes the role writer.",
        openapi_extra={"requestBody": {"required": True, "content": _BYTES}},
    )
    router.add_api_route(
        "/v1/exports/{id}",
        _fetch_route(authenticator),
        operation_id="export",
        summary="Export",
        description="Fetch what a job of kind export wrote, for a day. Takes the role admin.",
        response_class=StreamingResponse,
        responses={200: {"description": "The archive", "content": _BYTES}},
    )
    return router


def _import_route(authenticator: RequestAuthenticator) -> Callable[..., Awaitable[Response]]:
    async def import_(
        *,
        request: Request,
        caller: Annotated[Caller, Depends(caller_dependency(authenticator))],
        format_: Annotated[str, Query(alias="format", description="conversations, ...")],
        name: Annotated[str, Query(max_length=NAME_CHARS_MAX, description="Of the file")] = "file",
        project: Annotated[str | None, _NameQuery] = None,
    ) -> Response:
        body = await request.body()

        def receive_upload(brain: Brain, _request: JobRequest) -> JobsReply:
            # Whatever a name says, the file lies in a folder of its own.
            with TemporaryDirectory(prefix="commonbrain-") as folder:
                path = Path(folder) / "sent"
                path.write_bytes(body)
                own = Path(name).name or "file"
                return JobsReply(
                    jobs=(brain.jobs.import_(format_, path, name=own, project=project),)
                )

        operation_request = JobRequest(op="run", kind="import")
        upload_operation = replace(JOB, handle=receive_upload)
        done = await run_operation(
            authenticator,
            upload_operation,
            caller=caller,
            request=request,
            operation_request=operation_request,
        )
        return Response(done, media_type="application/json")

    return import_


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
            authenticator.brain.services.staging.read(archive),
            media_type="application/octet-stream",
            headers={"Content-Disposition": f'attachment; filename="{archive.name}"'},
        )

    return fetch


def _archive(brain: Brain, operation_request: JobRequest) -> object:
    return brain.jobs.archive(operation_request.id or "")
