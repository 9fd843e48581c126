"""Variables of the environment by which clients describe themselves to what they start."""

from typing import Final

FOLDER_VARIABLES: Final = ("CLAUDE_PROJECT_DIR", "CURSOR_PROJECT_DIR", "GEMINI_PROJECT_DIR")
"""Variables by which clients pass their folder to hooks, wherever those run."""
SESSION_VARIABLES: Final = {"claude-code": "CLAUDE_CODE_SESSION_ID"}
"""Variables by which clients pass their session to what they start.

Only a client's own variable counts, because another client started from its shell inherits it.
"""
PASSED_VARIABLES: Final = frozenset({*FOLDER_VARIABLES, *SESSION_VARIABLES.values()})
"""Variables that describe the client, for a process that works on behalf of another."""
