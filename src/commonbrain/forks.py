"""What a forked child has to put right: none of its parent's other threads exist there.

A lock that one of them held stays locked for ever, and SQLite cannot be used across a fork:
https://sqlite.org/howtocorrupt.html#_carrying_an_open_database_file_across_a_fork
"""

import os
from collections.abc import Callable


def after_fork(act: Callable[[], None]) -> None:
    """Call a function in every forked child; never on systems that cannot fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=act)
