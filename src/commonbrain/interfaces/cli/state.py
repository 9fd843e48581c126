"""What the options before the command settle: which store, and who acts."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from commonbrain.brain import Brain, Identity
from commonbrain.domain.session import UNKNOWN, Contact
from commonbrain.interfaces.operations import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What is to be imported, and whether only to see what would happen."""

    format: str
    path: Path
    project: str | None
    is_rehearsal: bool
    is_left: bool = False
    """Whether a worker does it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The options that every command shares."""

    store: str | None = None
    agent: str | None = None
    session: str | None = None
    tenant: str | None = None

    def profile(self) -> Profile:
        """Give the settings' choice of tools that an MCP client is shown."""
        from commonbrain.wiring import load_settings  # noqa: PLC0415

        return Profile(load_settings().mcp_profile)

    def open(self, *, serves: str | None = None) -> Brain:
        """Open the brain they name, for one command or for the server that it `serves`."""
        # The adapters are what takes long to load; help and completion do without.
        from commonbrain.wiring import open_brain  # noqa: PLC0415

        identity = Identity()
        if self.agent is not None:
            identity["agent"] = self.agent
        if self.session is not None:
            identity["session"] = self.session
        brain = open_brain(self.store, tenant=self.tenant, serves=serves, **identity)
        if brain.caller.session is None:
            return brain.acting_as(contact=_here())
        # A command is over in a moment: it is a sign of life of the session that it names, whose
        # project it means.
        session = brain.session.meet()
        project = brain.caller.project or session.project
        return brain.acting_as(project=project, contact=_here())


def _here() -> Contact:
    """Tell the folder that a command was given in, which is all that lasts of it."""
    with suppress(OSError):
        return Contact(cwd=str(Path.cwd()))
    return UNKNOWN
