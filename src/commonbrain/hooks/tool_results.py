"""What tools did, in the words of each client: how a command ended, and what an edit wrote.

The module is imported by every hook, before anything heavy.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, cast

from commonbrain.model.values import dataclass, replace
from commonbrain.text.patterns import lazy_pattern

INTERRUPTED: Final = 130
"""The exit status of a command that a user or a limit of time ended, and of one that still runs."""
_CLAUDE_STATUS: Final = lazy_pattern(r"Exit code (\d+)\n?")
_GEMINI_STATUS: Final = lazy_pattern(r"^(?:Exit Code|Signal): (\w+)$", re.MULTILINE)
_GEMINI_OUTPUT: Final = lazy_pattern(
    r"(?:<untrusted_context>\n)?(?:Command: .*\nDirectory: .*\n)?Output: (.*?)"
    r"(?:\nError: \(none\))?(?:\n(?:Exit Code|Signal|Background PIDs|Process Group PGID): .*)?\Z",
    re.DOTALL,
)
_COPILOT_STATUS: Final = lazy_pattern(r"\n?<shellId: \S+ completed with exit code (\d+)>\s*\Z")
_OUTPUT_CHARS_MAX: Final = 262_144
"""Of an output, half from each end: it begins with what failed first and ends with the summary."""
_STOPPED: Final = ("interrupted", "is_interrupt", "backgroundTaskId")
_RUNNING: Final = lazy_pattern(r"Command (?:was cancelled|timed out|moved to background)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a command printed, and its exit status."""

    output: str = ""
    exit_code: int | None = None
    """None if the client does not say."""


def read_result(payload: Mapping[str, Any]) -> ToolResult:
    """Read the result in the payload of an event; an empty one if it has none.

    Of a long output it has both ends, as every rule reads all of it.
    """
    result = _read_result(payload)
    if len(result.output) <= _OUTPUT_CHARS_MAX:
        return result
    half = _OUTPUT_CHARS_MAX // 2
    return replace(result, output=f"{result.output[:half]}\n{result.output[-half:]}")


def _read_result(payload: Mapping[str, Any]) -> ToolResult:
    error = payload.get("error", payload.get("error_message"))
    if isinstance(error, str):
        return _failed(payload, error)
    given = payload.get("tool_response", payload.get("tool_output", payload.get("tool_result")))
    if isinstance(given, str):
        try:
            value = json.loads(given) if given.startswith("{") else given
        except (ValueError, RecursionError):
            value = given
    else:
        value = given
    if isinstance(value, dict):
        return _structured(cast("dict[str, Any]", value))
    # Codex gives the output alone.
    return ToolResult(output=given if isinstance(given, str) else "")


def _failed(payload: Mapping[str, Any], error: str) -> ToolResult:
    """Read Claude Code's error, which begins with the exit status, Qwen Code's, or Cursor's."""
    if error.startswith("Command: "):
        result = _of_gemini(error)
        # Without a status, the command never ran.
        return result if result.exit_code else replace(result, exit_code=INTERRUPTED)
    stated = _CLAUDE_STATUS.match(error)
    output = error[stated.end() :] if stated else error
    # An error of Claude Code without a status is not the command's: it was not allowed to run.
    of_cursor = 1 if "error_message" in payload else INTERRUPTED
    code = int(stated[1]) if stated else of_cursor
    is_stopped = payload.get("is_interrupt") is True or payload.get("failure_type", "error") != (
        "error"
    )
    return ToolResult(
        output=output,
        exit_code=INTERRUPTED if is_stopped or _RUNNING.match(output) else code,
    )


def _structured(value: Mapping[str, Any]) -> ToolResult:
    """Read an object: Claude Code's of a command that succeeded, and those of others."""
    if any(value.get(name) for name in _STOPPED):
        return ToolResult(exit_code=INTERRUPTED)
    text = value.get("llmContent")
    if isinstance(text, str):
        return _of_gemini(text)
    text = value.get("text_result_for_llm")
    if isinstance(text, str):
        return _of_copilot(text)
    code = value.get("exitCode", value.get("exit_code", 0))
    parts = (value.get(name) for name in ("stdout", "stderr", "output"))
    return ToolResult(
        output="\n".join(one for one in parts if isinstance(one, str) and one),
        exit_code=code if isinstance(code, int) else None,
    )


def _of_gemini(text: str) -> ToolResult:
    """Read Gemini's text for its model, which names the exit status unless it is 0."""
    if _RUNNING.match(text):
        return ToolResult(exit_code=INTERRUPTED)
    whole = text.removesuffix("\n</untrusted_context>")
    output = _GEMINI_OUTPUT.match(whole)
    stated = [str(one) for one in _GEMINI_STATUS.findall(whole)]
    code = int(stated[-1]) if stated and stated[-1].isdecimal() else INTERRUPTED
    return ToolResult(output=output[1] if output else whole, exit_code=code if stated else 0)


def _of_copilot(text: str) -> ToolResult:
    """Read Copilot's text for its model, which ends with the exit status of what has ended."""
    stated = _COPILOT_STATUS.search(text)
    if stated is None:
        return ToolResult(output=text, exit_code=INTERRUPTED)
    return ToolResult(output=text[: stated.start()], exit_code=int(stated[1]))


_CHANGED_LINES_MAX: Final = 8
_CHANGED_CHARS_MAX: Final = 160
_OLD_AND_NEW: Final = (
    ("old_string", "new_string"),
    ("old_str", "new_str"),
    *(("", name) for name in ("content", "new_source", "file_text")),
)


def changed_lines(tool_input: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the first lines that an edit removes and adds, with the signs of a patch."""
    patch = tool_input.get("command")
    if isinstance(patch, str):
        lines = (one for one in patch.splitlines() if one[:1] in {"+", "-"})
        return _bounded(one for one in lines if one[:3] not in {"+++", "---"})
    edits = tool_input.get("edits")
    listed = cast("list[object]", edits) if isinstance(edits, list) else []
    each = [tool_input, *(cast("dict[str, Any]", one) for one in listed if isinstance(one, dict))]
    return _bounded(line for one in each for line in _replaced(one))


def _replaced(edit: Mapping[str, Any]) -> Iterator[str]:
    for names in _OLD_AND_NEW:
        texts = (edit.get(name) for name in names)
        old, new = (one.splitlines() if isinstance(one, str) else [] for one in texts)
        before, after = set(old), set(new)
        yield from (f"- {line.strip()}" for line in old if line not in after)
        yield from (f"+ {line.strip()}" for line in new if line not in before)


def _bounded(lines: Iterable[str]) -> tuple[str, ...]:
    written = (one[:_CHANGED_CHARS_MAX] for one in lines if one[1:].strip())
    return tuple(islice(written, _CHANGED_LINES_MAX))
