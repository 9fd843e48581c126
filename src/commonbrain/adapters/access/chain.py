"""Tells by the look of a credential who can check it."""

from dataclasses import dataclass

from commonbrain.adapters.access.standing import unknown
from commonbrain.domain.credentials import KEY_SIGN
from commonbrain.domain.errors import Unknown
from commonbrain.domain.scope import Caller
from commonbrain.ports.access import Access


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Asks the keys about what looks like a key, and the tokens, if there are any, of the rest."""

    keys: Access
    tokens: Access | None = None

    def admit(self, credential: str | None, *, address: str | None) -> Caller:
        """Give who calls."""
        if not credential:
            raise Unknown(
                "This takes a credential.",
                code="missing_credential",
                hint="Send an API key or a token: Authorization: Bearer ...",
            )
        if credential.startswith(KEY_SIGN):
            return self.keys.admit(credential, address=address)
        if self.tokens is None:
            raise unknown()
        return self.tokens.admit(credential, address=address)

    def known(self, credential: str | None, *, address: str | None) -> Caller | None:
        """Give who calls with a key that is known; a token's signature is checked each time."""
        return self.keys.known(credential, address=address)
