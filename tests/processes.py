"""Starting the program under test as processes of its own, with nothing of ours in their way."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from commonbrain.runtime.callers import AGENT_VARIABLES

TIMEOUT_S = 60.0
"""How long a test waits for another process before it fails; a healthy one takes a second."""
AS_PERSON: Final = {"COMMONBRAIN_AS_OWNER": "true"}
AS_AGENT: Final = {"COMMONBRAIN_AS_OWNER": "false"}
"""Who runs a command whose terminal is a pipe: a person, or a model or script."""


def clean_environment(**more: str) -> dict[str, str]:
    """Give the environment without settings of Python and of the product, but for those given.

    Nor has it the variables of an agent that runs the tests.

    The tests' own folder of logs and early events stays, so that no user's home is written to.
    Commands act for the owner of the store, as those that a person types at a terminal.
    """
    own = ("PYTHON", "COMMONBRAIN_")
    own_state = {"COMMONBRAIN_STATE"}
    given = os.environ.items()
    inherited = {
        name: value
        for name, value in given
        if name in own_state or not (name.startswith(own) or name in AGENT_VARIABLES)
    }
    return inherited | AS_PERSON | more


def command(store: Path | str, *arguments: str) -> list[str]:
    """Give the command line that runs `brain` on a store."""
    return [sys.executable, "-m", "commonbrain", "--store", str(store), *arguments]


def until(is_so: Callable[[], bool]) -> None:
    """Wait until a condition holds; fail if it takes longer than `TIMEOUT_S`."""
    wait = Retrying(
        retry=retry_if_result(lambda seen: not seen),
        wait=wait_fixed(0.005),
        stop=stop_after_delay(TIMEOUT_S),
    )
    wait(is_so)
