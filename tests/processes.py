"""Starting the program under test as processes of its own, with nothing of ours in their way."""

import os
import sys
from pathlib import Path

PATIENCE_S = 60.0
"""How long a test waits for another process before it fails; a healthy one takes a second."""


def clean_environment(**more: str) -> dict[str, str]:
    """Give the environment without settings of Python and of the product, but for those given."""
    own = ("PYTHON", "COMMONBRAIN_")
    return {name: value for name, value in os.environ.items() if not name.startswith(own)} | more


def command(store: Path, *arguments: str) -> list[str]:
    """Give the command line that runs `brain` on a store."""
    return [sys.executable, "-m", "commonbrain", "--store", str(store), *arguments]
