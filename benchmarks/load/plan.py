"""The plan of a load: written by the benchmark, read by the process that makes it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which agents ask what, and how often."""

    url: str
    keys: list[str]
    questions: list[str]
    words: list[str]
    rate: float
    """Requests a second, of all agents together."""
    agents: int
    writes: float
    """The share of requests that remember; the rest recall."""
    timeout_s: float
    report: str
    """Where the figures go."""
    ledger: str
    """Where each answer goes as it comes: a line of JSON with its time, call, and id or error."""
    uncounted_s: float = 0.0
    """How long Locust counts nothing at first, while all agents connect at once."""
    deadline_ms: int | None = None
    """What recalls say of how long they may take."""
    retries: int = 0
    """How often a call is sent again when the server says when, or is gone."""
    mark: str = field(default_factory=lambda: token_hex(4))
    """What distinguishes this run's memories from those of others in the same store."""

    @classmethod
    def read(cls, path: Path) -> Plan:
        """Read what `write` wrote."""
        given: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return cls(**given)

    def write(self, path: Path) -> None:
        """Write it for another process."""
        path.write_text(json.dumps(asdict(self)), "utf-8")
