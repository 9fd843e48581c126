"""For one person on one machine: whoever reaches the loopback address is that person."""

from commonbrain.domain.errors import Refused
from commonbrain.domain.locations import is_loopback
from commonbrain.domain.scope import Caller


class LocalAccess:
    """Takes every call from this machine for its user's, whatever credential it bears.

    Every program of the machine may call, those of other users too; a key tells them apart.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def admit(
        self,
        credential: str | None,  # noqa: ARG002 the port gives it
        *,
        address: str | None,
    ) -> Caller:
        """Give the user; a call from elsewhere is refused."""
        if address is None or not is_loopback(address):
            raise Refused(
                "Without access control only this machine may call.",
                code="address_denied",
                hint="Serve without --open, and give each caller a key.",
            )
        return self._caller
