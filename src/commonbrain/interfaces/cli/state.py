"""What the options before the command settle: which store, and who acts."""

from dataclasses import dataclass
from pathlib import Path

from commonbrain.brain import Brain, Identity
from commonbrain.wiring import open_brain


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The options that every command shares."""

    store: Path | None = None
    agent: str | None = None
    session: str | None = None

    def open(self) -> Brain:
        """Open the brain they name."""
        identity = Identity()
        if self.agent is not None:
            identity["agent"] = self.agent
        if self.session is not None:
            identity["session"] = self.session
        return open_brain(self.store, **identity)
