"""The command `brain`, also available as `python -m commonbrain`."""

import atexit
import gc
import os
import sys
from codecs import register_error
from io import TextIOWrapper
from time import monotonic
from typing import Final

GC_THRESHOLD: Final = 250_000
"""A cold recall allocates 190,000 objects, nearly all of which stay until the end.

By default the collector runs 250 times meanwhile. A server needs no more memory with this after
400 recalls than without.
"""
_VARIABLES: Final = {
    # Threads of numpy wait for work by spinning: a product with 10,000 vectors takes five times the
    # processor time, and no less by the clock.
    "OPENBLAS_NUM_THREADS": "1",
    # Pydantic would read the metadata of every installed package.
    "PYDANTIC_DISABLE_PLUGINS": "__all__",
}


def main() -> None:
    """Run hooks and the proxy directly; load the command line for everything else."""
    began = monotonic()
    gc.set_threshold(GC_THRESHOLD)
    for name, value in _VARIABLES.items():
        os.environ.setdefault(name, value)
    # At its end the interpreter would search all modules for garbage, for a quarter of the time of
    # `brain status`. The system takes the memory back anyway.
    atexit.register(gc.freeze)
    _repair_streams()
    if sys.argv[1:] == ["--version"]:
        from importlib.metadata import version  # noqa: PLC0415

        print(version("commonbrain"))  # noqa: T201 it is the answer
        return
    is_for_people = {"--help", "-h"} & set(sys.argv)
    if sys.argv[1:2] == ["hook"] and not is_for_people:
        # A client waits for its hooks, which often have nothing to do.
        from commonbrain.hooks.runner import run_hook  # noqa: PLC0415

        run_hook(sys.argv[2:], began=began)
    if sys.argv[-1] == "statusline":
        # A client runs it after each message.
        from commonbrain.hooks.status_line import run_status_line  # noqa: PLC0415

        if run_status_line(sys.argv[1:]):
            return
    if sys.argv[-2:] == ["mcp", "--background"]:
        # Hooks start it; it is of no use to people.
        from commonbrain.mcp.background import serve_sessions  # noqa: PLC0415

        serve_sessions(sys.argv[1:])
        return
    is_bridge = any(word.partition("=")[0] == "--url" for word in sys.argv[2:])
    if sys.argv[1:2] == ["mcp"] and is_bridge and not is_for_people:
        # A client that starts one per agent pays for every megabyte.
        from commonbrain.mcp.proxy import run_proxy_command  # noqa: PLC0415

        run_proxy_command(sys.argv[2:])
        return
    from commonbrain.runtime.callers import put_global_first  # noqa: PLC0415

    sys.argv[1:] = put_global_first(sys.argv[1:])
    if sys.argv[-1] == "mcp":
        # The same; it returns if the words are of another command, or nothing can be shared.
        from commonbrain.mcp.bridge import serve_command  # noqa: PLC0415

        serve_command(sys.argv[1:])
    from commonbrain.cli.command_client import forward_command  # noqa: PLC0415

    code = forward_command(sys.argv[1:])
    if code is not None:
        sys.exit(code)
    from commonbrain.cli.main import run  # noqa: PLC0415

    run()


def _escaped(error: UnicodeError) -> tuple[str, int]:
    from json import dumps  # noqa: PLC0415 it is seldom called

    if not isinstance(error, UnicodeEncodeError):
        raise error
    return dumps(error.object[error.start : error.end])[1:-1], error.end


def _repair_streams() -> None:
    """Let every text be printed in any encoding, and give closed streams an empty file.

    What an encoding lacks is a question mark for people, and an escape in JSON.
    """
    for name, mode in {"stdin": "r", "stdout": "w", "stderr": "w"}.items():
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
    register_error("json", _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="json" if "--json" in sys.argv else "replace")


if __name__ == "__main__":
    main()
