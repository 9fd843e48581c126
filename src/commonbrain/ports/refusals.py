"""Where refusals are written down, without ever holding up who is refused."""

from typing import Protocol

from commonbrain.ports.credentials import AccessEntry


class Refusals(Protocol):
    """Takes what was refused to the audit of access, counted where there are many alike."""

    def note(self, tenant: str, entry: AccessEntry) -> None:
        """Take one in; it never raises, and never tells by its time what is known of the tenant."""
        ...

    def used(self, tenant: str, prefix: str) -> None:
        """Note that a key was used, some time soon."""
        ...

    def close(self) -> None:
        """Write what is left; afterwards nothing is taken in."""
        ...
