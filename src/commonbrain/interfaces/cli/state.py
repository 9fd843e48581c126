"""What the options before the command settle: which store, and who acts."""

from dataclasses import dataclass
from pathlib import Path

from commonbrain.brain import Brain, Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What is to be imported, and whether only to see what would happen."""

    format: str
    path: Path
    project: str | None
    is_rehearsal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The options that every command shares."""

    store: Path | None = None
    agent: str | None = None
    session: str | None = None

    def open(self) -> Brain:
        """Open the brain they name."""
        # The adapters are what takes long to load; help and completion do without.
        from commonbrain.wiring import open_brain  # noqa: PLC0415

        identity = Identity()
        if self.agent is not None:
            identity["agent"] = self.agent
        if self.session is not None:
            identity["session"] = self.session
        brain = open_brain(self.store, **identity)
        if brain.caller.session is None:
            return brain
        # A command is over in a moment: it is a sign of life of the session that it names, whose
        # project it means.
        session = brain.session.meet()
        return brain.acting_as(project=brain.caller.project or session.project)
