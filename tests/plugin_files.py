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
FILES: Final[Mapping[str, Path]] = {
    "claude-code": PLUGIN / "hooks" / "hooks.json",
    "codex": PLUGIN / "hooks" / "codex.json",
    "cursor": PLUGIN / "hooks" / "cursor.json",
}


def hooks_of(client: str) -> str:
    """Draw the hooks of a client, which start the program by a shell."""
    program = PROGRAM[client]
    drawn = HOOKS_FILES[client].add(None, HookCommand(brain=("sh", program)), path=FILES[client])
    # Where a command is a line for the shell, the variable has to be left to it.
    return drawn.replace(f"'{program}'", f'\\"{program}\\"')


if __name__ == "__main__":
    for name, path in FILES.items():
        path.write_text(hooks_of(name))
