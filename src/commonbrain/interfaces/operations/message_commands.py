"""The commands about messages, one for each thing that can be done with them."""

from typing import Final

from commonbrain.interfaces.operations.operation import Command

_PAGED: Final = frozenset({"limit", "cursor"})
_LETTER: Final = frozenset({"subject", "priority", "thread", "expires_at"})


def _command(op: str, purpose: str, *positional: str, **more: frozenset[str]) -> Command:
    """Make a command whose words without a name cannot be left out."""
    named = frozenset(positional)
    return Command(
        name=f"message {op}",
        purpose=purpose,
        preset={"op": op},
        fields=more.get("fields", frozenset()) | named,
        positional=positional,
        required=more.get("required", frozenset()) | named,
        single=more.get("single", frozenset()),
    )


MESSAGE_COMMANDS: Final = (
    _command(
        "send",
        "Write to one agent, to several, or to all.",
        "text",
        fields=_LETTER | {"to"},
        required=frozenset({"to"}),
    ),
    _command(
        "reply",
        "Answer a message in its thread, to whoever had it.",
        "id",
        "text",
        fields=_LETTER - {"thread"} | {"to"},
        single=frozenset({"id"}),
    ),
    _command("inbox", "List what is unread, urgent first.", fields=_PAGED | {"all"}),
    _command("read", "Show messages in full and mark them as read.", "id"),
    Command(
        name="message ack",
        purpose="Acknowledge a message, with an answer if there is one.",
        preset={"op": "ack"},
        fields=frozenset({"id", "text"}),
        positional=("id", "text"),
        required=frozenset({"id"}),
        single=frozenset({"id"}),
    ),
    _command(
        "history",
        "Page through a thread, or through what was said with an agent.",
        fields=_PAGED | {"thread", "agent"},
    ),
    _command("threads", "List threads, those with the latest word first.", fields=_PAGED),
    _command(
        "delegate",
        "Hand a task to another agent; its status is told by brain task.",
        "text",
        fields=_LETTER | {"to", "due_at"},
        required=frozenset({"to"}),
        single=frozenset({"to"}),
    ),
    _command("delegated", "List tasks that were handed over, with their status.", fields=_PAGED),
)
