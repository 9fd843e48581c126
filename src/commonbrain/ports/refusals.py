"""Where refusals are written down, without ever holding up who is refused."""

from collections.abc import Callable
from typing import Protocol

from commonbrain.ports.credentials import AccessEntry


class Refusals(Protocol):
    """Takes what was refused to the audit of access, counted where there are many alike."""

    def note(self, tenant: str, entry: AccessEntry) -> None:
        """Take one in; it never raises, and never tells by its time what is known of the tenant."""
        ...

    def used(self, tenant: str, prefix: str, *, lost: Callable[[], None]) -> None:
        """Note that a key was used, some time soon; what cannot be written calls `lost`.

        It is called at once or by another thread.
        """
        ...

    def close(self) -> None:
        """Write what is left; afterwards nothing is taken in."""
        ...
