"""The command `brain`, also available as `python -m commonbrain`."""

import atexit
import gc
import sys
from typing import Final

_GC_THRESHOLD: Final = 50_000
"""By default the collector runs 250 times while a command starts, a twentieth of its time.

What is imported stays until the end, so there is nothing to collect. A server needs no more memory
with it after 400 recalls than without.
"""


def main() -> None:
    """Run hooks and the proxy directly; load the command line for everything else."""
    gc.set_threshold(_GC_THRESHOLD)
    # At its end the interpreter would search all modules for garbage, for a quarter of the time of
    # `brain status`. The system takes the memory back anyway.
    atexit.register(gc.freeze)
    if sys.argv[1:] == ["--version"]:
        from importlib.metadata import version  # noqa: PLC0415

        print(version("commonbrain"))  # noqa: T201 it is the answer
        return
    is_for_people = {"--help", "-h"} & set(sys.argv)
    if sys.argv[1:2] == ["hook"] and not is_for_people:
        # A client waits for its hooks, which often have nothing to do.
        from commonbrain.hooks.runner import run_hook  # noqa: PLC0415

        run_hook(sys.argv[2:])
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


if __name__ == "__main__":
    main()
