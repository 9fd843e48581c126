"""Renderers of replies, by operation, and how a reply is printed."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from rich.console import Console, RenderableType
from rich.text import Text

from commonbrain.api.operations import Operation
from commonbrain.cli.terminal import Sanitized

_RENDERERS: Final[Mapping[str, tuple[str, str]]] = {
    "boot": ("sessions", "render_briefing"),
    "recall": ("recall", "render_recall"),
    "list": ("memories", "render_list"),
    "get": ("memories", "render_get"),
    "revise": ("memories", "render_revision"),
    "bulk": ("memories", "render_bulk_change"),
    "forget": ("memories", "render_bulk_change"),
    "session": ("sessions", "render_session_reply"),
    "skill": ("memories", "render_skills"),
    "message": ("sessions", "render_messages"),
    "trace": ("memories", "render_trace"),
    "status": ("stores", "render_status"),
    "review": ("stores", "render_review_queue"),
    "doctor": ("stores", "render_diagnosis"),
}
"""Module in `cli.replies` and function, by operation; others are rendered as their text.

A command imports the renderer of its own reply alone.
"""


def print_reply(operation: Operation[Any, Any], reply: Any, *, console: Console) -> None:  # noqa: ANN401
    """Print any reply except that of remember."""
    render = _renderer_of(operation.name)
    console.print(Sanitized(render(reply) if render else Text(operation.render_text(reply))))


def _renderer_of(operation: str) -> Callable[[Any], RenderableType] | None:
    if operation not in _RENDERERS:
        return None
    module, function = _RENDERERS[operation]
    render: Callable[[Any], RenderableType] = getattr(
        import_module(f"commonbrain.cli.replies.{module}"), function
    )
    return render
