"""Opening the brain for one command, and what the command leaves."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import typer

from commonbrain.brain import Brain
from commonbrain.domain.errors import CommonbrainError
from commonbrain.interfaces.cli.state import State
from commonbrain.interfaces.noting import Asked, Call, asked, noted, noted_unopened
from commonbrain.interfaces.operations import Door, Operation
from commonbrain.interfaces.operations.operation import Request


@contextmanager
def opened(
    state: State, operation: Operation[Any, Any], *, request: Request | None
) -> Generator[tuple[Brain, Call]]:
    """Open the brain and note the call; `request` is None where a file holds many of them.

    Raises:
        CommonbrainError: the store cannot be opened, which waits to be told as well.

    """
    call = (
        Asked(operation=operation, door=Door.CLI, given={})
        if request is None
        else asked(operation, request, door=Door.CLI)
    )
    try:
        brain = state.open()
    except CommonbrainError as error:
        noted_unopened(call, error, agent=state.agent)
        raise
    left: typer.Exit | None = None
    with brain, noted(brain, call) as noting:
        try:
            yield brain, noting
        except typer.Exit as exit_:
            noting.answered(exit_.exit_code)
            left = exit_
    if left is not None:
        raise left
