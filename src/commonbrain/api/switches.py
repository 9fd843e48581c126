"""Whether an agent may use the memory here and now: a person may pause it, a folder end its use."""

import os
from typing import Any

from commonbrain.api.operation import Operation, Request
from commonbrain.api.project_folder import LEFT_ON, folder_config_of, switched_off_error
from commonbrain.model.scope import Authority, Caller
from commonbrain.runtime.pause import pause_in, paused_error


def check_switched_on(
    operation: Operation[Any, Any], caller: Caller, *, request: Request | None
) -> None:
    """Check that an agent of this machine may make a call; people and callers of a server may.

    Raises:
        RejectedError: `paused`, a write during a pause; `switched_off`, by a file of the folder.

    """
    is_left_on = operation.name in LEFT_ON
    _check(caller, is_read=operation.only_reads(request) or is_left_on, is_left_on=is_left_on)


def check_import_is_on(caller: Caller) -> None:
    """Check that an agent of this machine may import.

    Raises:
        RejectedError: as for a call that writes.

    """
    _check(caller, is_read=False, is_left_on=False)


def _check(caller: Caller, *, is_read: bool, is_left_on: bool) -> None:
    if caller.authority is Authority.PERSON or caller.admission is not None:
        return
    if not is_read and (pause := pause_in(os.environ)):
        raise paused_error(pause)
    file = folder_config_of(caller).memory_off_by
    if file is not None and not is_left_on:
        raise switched_off_error(file)
