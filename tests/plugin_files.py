"""The hooks of the plugin, drawn from the table of hooks: `just plugin` writes them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from commonbrain.integrations import HOOKS_FILES, HookCommand

REPOSITORY: Final = Path(__file__).parents[1]
PLUGIN: Final = REPOSITORY / "plugins" / "commonbrain"
PROGRAM: Final[Mapping[str, str]] = {
    "claude-code": "${CLAUDE_PLUGIN_ROOT}/bin/brain",
    "codex": "${CLAUDE_PLUGIN_ROOT}/bin/brain",
    "cursor": "${CURSOR_PLUGIN_ROOT}/bin/brain",
}
"""Where each client that takes plugins finds the program of this one."""
START: Final = '[ -f "$0" ] || exit 0; . "$0"'
"""An upgrade of the plugin removes the folder of running sessions, and a shell without its file
would end with 2, by which clients block."""
FILES: Final[Mapping[str, Path]] = {
    "claude-code": PLUGIN / "hooks" / "hooks.json",
    "codex": PLUGIN / "hooks" / "codex.json",
    "cursor": PLUGIN / "hooks" / "cursor.json",
}


def hooks_of(client: str) -> str:
    """Draw the hooks of a client, which start the program by a shell."""
    program = PROGRAM[client]
    command = HookCommand(brain=("sh", "-c", START, program))
    drawn = HOOKS_FILES[client].add(None, command, path=FILES[client])
    # Where a command is a line for the shell, the variable has to be left to it.
    return drawn.replace(f"'{program}'", f'\\"{program}\\"')


if __name__ == "__main__":
    for name, path in FILES.items():
        path.write_text(hooks_of(name))
