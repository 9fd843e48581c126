"""Calling hooks as clients do: input on stdin, output on stdout, and an exit status."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from commonbrain.hooks.table import HookEvent
from tests.in_process import run_brain

SESSION = "5f0c9d2e-hook"
PATIENT = {
    **{f"COMMONBRAIN_HOOK_{name}_TIMEOUT_S": "50" for name in ("EDIT", "PROMPT", "START", "WRITE")},
    "COMMONBRAIN_MCP_SHARED": "off",
}
"""Whether a hook is done in time depends on the machine; most tests are about what it does. It
starts no process for later hooks, which would outlive the test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a hook left: it never fails, so its status is always to be 0."""

    status: int
    out: str
    err: str

    @property
    def context(self) -> str:
        """The text for the client's model, in whichever shape; empty when there is none."""
        output: dict[str, Any] = json.loads(self.out or "{}")
        specific: dict[str, str] = output.get("hookSpecificOutput", {})
        plain: dict[str, str] = {**output, **specific}
        return plain.get("additionalContext") or plain.get("additional_context", "")


def call_hook(
    store: Path, *words: str, told: dict[str, object] | bytes, **environment: str
) -> Answered:
    """Run a hook to its end; its marks are next to the store, unless a folder is given."""
    environment = PATIENT | {"COMMONBRAIN_STATE": str(store.parent / "state")} | environment
    raw = told if isinstance(told, bytes) else json.dumps(told).encode()
    done = run_brain("hook", *words, "--store", str(store), stdin=raw, **environment)
    return Answered(status=done.status, out=done.out, err=done.err)


def make_event(**fields: str) -> HookEvent:
    """Make an event of a session that has a name."""
    return replace(HookEvent(session=SESSION), **dict[str, Any](fields))
