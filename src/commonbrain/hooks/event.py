"""Parses a client's hook input, which is untrusted JSON, into one type for all clients."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import NAME_CHARS_MAX

INPUT_BYTES_MAX: Final = 4 * 1024 * 1024
"""About a hundred times the summary of a long conversation."""
_NAMES: Final = {
    "session": ("session_id", "conversation_id"),
    "prompt": ("prompt",),
    "reply": ("last_assistant_message", "text", "prompt_response"),
    "summary": ("compact_summary",),
    "cause": ("source", "reason", "trigger"),
    "turn": ("prompt_id", "turn_id", "generation_id"),
    "transcript": ("transcript_path",),
}
"""Each client's names for a field, in the order they are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """One event in a client; a field that the client does not send is empty."""

    session: str = ""
    folder: Path | None = None
    prompt: str = ""
    reply: str = ""
    """The agent's last message."""
    summary: str = ""
    """The summary that a compaction made."""
    cause: str = ""
    turn: str = ""
    transcript: str = ""
    """The client's file with the conversation; named as a source, never read."""

    @property
    def source_ref(self) -> str | None:
        """The source of texts captured from this event."""
        place = self.transcript or self.session
        return f"{place}#{self.turn}" if place and self.turn else place or None


def read_event(raw: bytes) -> HookEvent:
    """Parse a client's input.

    Raises:
        InvalidInputError: the input is too large, or not a JSON object.

    """
    if len(raw) > INPUT_BYTES_MAX:
        raise InvalidInputError(f"The hook's input has more than {INPUT_BYTES_MAX:,} bytes.")
    try:
        value = json.loads(raw or b"{}")
    except (ValueError, RecursionError) as error:
        raise InvalidInputError("The hook's input is not JSON.") from error
    if not isinstance(value, dict):
        raise InvalidInputError("The hook's input is not a JSON object.")
    payload = cast("dict[str, Any]", value)
    texts = {name: _text(payload, keys) for name, keys in _NAMES.items()}
    return HookEvent(**{**texts, "session": _name(texts["session"])}, folder=_folder(payload))


def _text(payload: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return next((payload[key] for key in keys if isinstance(payload.get(key), str)), "")


def _name(text: str) -> str:
    return text if text.isprintable() and len(text) <= NAME_CHARS_MAX else ""


def _folder(payload: Mapping[str, Any]) -> Path | None:
    """Return the event's folder: its own field, or the first workspace root."""
    roots = payload.get("workspace_roots")
    first = cast("list[object]", roots)[0] if isinstance(roots, list) and roots else None
    path = payload.get("cwd") or first
    if not isinstance(path, str) or "\0" in path or not Path(path).is_absolute():
        return None
    return Path(path)
