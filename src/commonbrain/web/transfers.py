"""Files that come in and go out on the page: uploads to import, exports, and backups."""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from pydantic import Field
from starlette.datastructures import FormData, ImmutableMultiDict, UploadFile
from starlette.requests import Request
from starlette.responses import StreamingResponse

from commonbrain.api.dispatch import authorize_call
from commonbrain.api.operation import Name, Operation, Transport
from commonbrain.api.operation import Request as OperationRequest
from commonbrain.api.operations.job import JOB, JobRequest
from commonbrain.client import Brain
from commonbrain.folders import reporting_full_disk, temporary_folder
from commonbrain.jobs.service import JobsReply
from commonbrain.model.errors import InvalidInputError, NotFoundError, UnavailableError
from commonbrain.model.limits import NAME_CHARS_MAX, UPLOAD_BYTES_MAX
from commonbrain.model.scope import Caller, Role
from commonbrain.storage.job_queue import EXPORT
from commonbrain.storage.uploads import Upload
from commonbrain.web.visit import Visit, parse_request

TRANSFER_PATH: Final = "/transfer"
IMPORT_PATH: Final = f"{TRANSFER_PATH}/import"
FORM_BYTES_MAX: Final = 64 * 1024
"""The other fields of the form that sends a file."""
BODY_BYTES_MAX: Final = UPLOAD_BYTES_MAX + FORM_BYTES_MAX
_UPLOAD_S: Final = 300
"""Seconds for a file to arrive: the largest one at 1 Mbit/s."""
_FIELDS_MAX: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedForm:
    """A form with a file, which is deleted when its resources are closed."""

    form: FormData
    resources: ExitStack


@dataclass(frozen=True, slots=True)
class FormUploads:
    """Receives the files of forms; each is on disk twice until it is staged."""

    take: Callable[[Caller], AbstractContextManager[None]]
    """Held while a file of a caller is received; may refuse it."""
    seconds_max: float = _UPLOAD_S

    @asynccontextmanager
    async def receive(self, request: Request, caller: Caller) -> AsyncGenerator[ReceivedForm]:
        """Receive a form with one file.

        The file is deleted when the block ends, unless its resources were moved with `pop_all` to
        a call that may outlast the block.

        Raises:
            UnavailableError: too many files arrive at once, this one took too long, or the disk for
                temporary files is full.

        """
        with ExitStack() as resources:
            resources.enter_context(self.take(caller))
            try:
                with reporting_full_disk():
                    async with asyncio.timeout(self.seconds_max):
                        form = await request.form(
                            max_files=1, max_fields=_FIELDS_MAX, max_part_size=FORM_BYTES_MAX
                        )
            except TimeoutError:
                raise UnavailableError(
                    f"The file did not arrive within {self.seconds_max:g} seconds.",
                    code="deadline",
                    hint="Send it in parts, or import it with `brain import`.",
                ) from None
            for value in form.values():
                if isinstance(value, UploadFile):
                    resources.callback(value.file.close)
            yield ReceivedForm(form=form, resources=resources)


def check_may_import(visit: Visit) -> None:
    """Refuse a person who may not import, before the file is received.

    Raises:
        RejectedError: `insufficient_role`, `scope_denied` or `boot_required`.

    """
    authorize_call(JOB, visit.brain, request=_IMPORT)


_IMPORT: Final = JobRequest(op="run", kind="import")


class ImportRequest(OperationRequest):
    """The fields of the form that sends a file."""

    format: str = Field(max_length=NAME_CHARS_MAX)
    project: Name = None
    dry_run: bool = False


def start_import(visit: Visit, form: FormData) -> None:
    """Stage the file of a form and create the job that imports it.

    Raises:
        InvalidInputError: no file was chosen, or a field is wrong.
        CommonbrainError: as `Jobs.import_`.

    """
    file = form.get("file")
    if not isinstance(file, UploadFile) or not file.filename:
        raise InvalidInputError("No file was chosen.", hint="Choose a file and send it again.")
    fields = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
    given = parse_request(ImportRequest, ImmutableMultiDict(fields))
    # The end holds the extension.
    name = Path(file.filename.replace("\\", "/")).name[-NAME_CHARS_MAX:] or "file"

    def stage(brain: Brain, _: JobRequest) -> JobsReply:
        # The file gets a fixed path, because its name is untrusted.
        with temporary_folder() as folder:
            path = folder / "sent"
            with path.open("wb") as copy:
                shutil.copyfileobj(file.file, copy)
            job = brain.jobs.import_(
                given.format, path, name=name, project=given.project, dry_run=given.dry_run
            )
            return JobsReply(jobs=(job,))

    visit.call(replace(JOB, handle=stage), _IMPORT)


def import_previewed(visit: Visit, form: ImmutableMultiDict[str, str]) -> None:
    """Create the job that imports what a dry run read.

    Raises:
        CommonbrainError: as `Jobs.import_previewed`.

    """

    def confirm(brain: Brain, request: JobRequest) -> JobsReply:
        return JobsReply(jobs=(brain.jobs.import_previewed(request.id or ""),))

    request = parse_request(JobRequest, form, op="show")
    visit.call(replace(JOB, handle=confirm), request)


def start_export(visit: Visit, _form: ImmutableMultiDict[str, str]) -> None:
    """Create the job that exports everything; an unfinished one is used again.

    Raises:
        RejectedError: the person is no admin, or too many jobs wait.

    """
    visit.call(JOB, JobRequest(op="run", kind=EXPORT))


class DownloadResponse(StreamingResponse):
    """Sends a file to save."""

    def __init__(self, upload: Upload, chunks: Iterator[bytes]) -> None:
        headers = {
            "Content-Disposition": f"attachment; filename*=utf-8''{quote(upload.name)}",
            "Content-Length": str(upload.size),
        }
        super().__init__(chunks, media_type="application/octet-stream", headers=headers)


def open_archive(visit: Visit, id_: str) -> DownloadResponse:
    """Open the archive of an export for a download.

    Raises:
        CommonbrainError: as `Jobs.archive`.

    """

    def archive(brain: Brain, request: JobRequest) -> object:
        return brain.jobs.archive(request.id or "")

    operation: Any = replace(JOB, role=Role.ADMIN, handle=archive)
    upload: Any = visit.call(operation, JobRequest(op="show", id=id_))
    return DownloadResponse(upload, visit.brain.services.uploads.read(upload))


class BackupRequest(OperationRequest):
    """The fields of the form about backups."""

    op: str = "start"
    folder: str = Field(default="", max_length=4096)


def change_backup(visit: Visit, form: ImmutableMultiDict[str, str]) -> None:
    """Start a backup, or cancel it.

    Raises:
        NotFoundError: this page makes no backups.
        CommonbrainError: as `Backups.start`.

    """
    backups = visit.backups
    if backups is None:
        raise NotFoundError(
            "This page makes no backups.", hint="The screen says how this store is backed up."
        )

    def change(brain: Brain, request: BackupRequest) -> None:
        match request.op:
            case "start":
                backups.start(brain, folder=request.folder)
            case "cancel":
                backups.cancel()
            case _:
                raise InvalidInputError(f"No action {request.op[:40]!r}.", hint="Use its button.")

    operation = Operation(
        name="backup",
        title="Backup",
        purpose="Back the store up.",
        request=BackupRequest,
        reply=object,
        handle=change,
        render_text=str,
        role=Role.ADMIN,
        transports=frozenset({Transport.WEB}),
    )
    visit.call(operation, parse_request(BackupRequest, form))
