"""Who a credential speaks for: what every networked door asks before it does anything."""

from typing import Protocol

from commonbrain.domain.scope import Caller


class Access(Protocol):
    """Tells callers by their credentials."""

    def admit(self, credential: str | None, *, address: str | None) -> Caller:
        """Give who calls: tenant, agent, role and trust come from the credential alone.

        Args:
            credential: what follows `Bearer`, or an API key; None when there was none.
            address: the IP address that the call came from, where it is known.

        Raises:
            Unknown: `missing_credential`, or `invalid_credential` whatever is wrong with it.
            Refused: the credential may not be used from there.
            Unavailable: it cannot be checked now.

        """
        ...

    def known(self, credential: str | None, *, address: str | None) -> Caller | None:
        """Give who calls where that is known at once, without a look at anything outside.

        None says nothing of the credential: whoever is to be refused is refused by `admit`.
        """
        ...
