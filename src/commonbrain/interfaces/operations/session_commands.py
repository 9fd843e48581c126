"""The commands about sessions, one for each thing that can be said or asked of one."""

from typing import Final

from commonbrain.interfaces.operations.operation import Command

_PARTS: Final = frozenset({"next_steps", "blockers", "context"})

SESSION_COMMANDS: Final = (
    Command(
        name="session list",
        purpose="List who else is at work, on what and since when.",
        preset={"op": "list"},
        fields=frozenset({"project", "agent"}),
    ),
    Command(
        name="session task",
        purpose="Say what you do now.",
        preset={"op": "task"},
        fields=frozenset({"text"}),
        positional=("text",),
        required=frozenset({"text"}),
    ),
    Command(
        name="session handoff",
        purpose="Leave to the next session what it must know; - reads text or JSON from stdin.",
        preset={"op": "handoff"},
        fields=_PARTS | {"text"},
        positional=("text",),
        required=frozenset({"text"}),
    ),
    Command(
        name="session end",
        purpose="End this session, with a handoff if there is one.",
        preset={"op": "end"},
        fields=_PARTS | {"text"},
        positional=("text",),
    ),
    Command(
        name="session note",
        purpose="Keep a value under a key for this session; an empty one takes it away.",
        preset={"op": "note"},
        fields=frozenset({"key", "text", "pinned"}),
        positional=("key", "text"),
        required=frozenset({"key", "text"}),
    ),
    Command(
        name="session notes",
        purpose="List what is noted in this session and pinned in its project.",
        preset={"op": "notes"},
        fields=frozenset(),
    ),
    Command(
        name="session checkpoint",
        purpose="Ask which rules bind a risky action before you take it.",
        preset={"op": "checkpoint"},
        fields=frozenset({"text"}),
        positional=("text",),
        required=frozenset({"text"}),
    ),
)
