"""Calling the hooks as clients do: another process, told on stdin, answering on stdout."""

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from commonbrain.hooks.table import HOOKS, HookEvent
from tests.processes import PATIENCE_S, clean_environment

SESSION = "5f0c9d2e-hook"
NATIVE = {(client, event): hook.native for (client, event), hook in HOOKS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a hook left: it never fails, so its status is always to be 0."""

    status: int
    out: str
    err: str

    @property
    def context(self) -> str:
        """What the client's model is told, in whichever shape; empty when nothing is."""
        told: dict[str, Any] = json.loads(self.out or "{}")
        specific: dict[str, str] = told.get("hookSpecificOutput", {})
        return specific.get("additionalContext") or told.get("additional_context", "")


def call_hook(
    store: Path, *words: str, told: dict[str, object] | bytes, **environment: str
) -> Answered:
    """Run a hook to its end; its marks are next to the store, unless a folder is given."""
    environment = {"COMMONBRAIN_STATE": str(store.parent / "state"), **environment}
    raw = told if isinstance(told, bytes) else json.dumps(told).encode()
    done = subprocess.run(
        [sys.executable, "-m", "commonbrain", "hook", *words, "--store", str(store)],
        input=raw,
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
        env=clean_environment(**environment),
    )
    return Answered(status=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())


def a_happening(**told: str) -> HookEvent:
    """Say what happened in a session that has a name."""
    return replace(HookEvent(session=SESSION), **dict[str, Any](told))
