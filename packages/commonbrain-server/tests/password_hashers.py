"""Keys that tests call with, and the errors of wrong ones."""

from datetime import timedelta

import pytest
from commonbrain_server.security.authentication import Authenticator
from commonbrain_server.security.key_texts import KeyText
from commonbrain_server.security.passwords import Argon2PasswordHasher
from commonbrain_server.tenants import NewKey

from commonbrain.model.errors import CommonbrainError
from commonbrain.model.limits import ACCESS_CACHE_S

HERE = "192.0.2.7"
CACHED_QUERIES_MAX = timedelta(seconds=ACCESS_CACHE_S)


class CountingPasswordHasher(Argon2PasswordHasher):
    """The real password hasher, with every check noted."""

    def __init__(self) -> None:
        super().__init__()
        self.verified: list[bool] = []
        """By check, whether there was a hash."""

    def verify(self, hashed: str | None, *, secret: str) -> bool:
        """Check a secret, and note it."""
        is_match = super().verify(hashed, secret=secret)
        self.verified.append(hashed is not None)
        return is_match


def refusal(
    access: Authenticator, credential: object, address: str | None = HERE
) -> CommonbrainError:
    with pytest.raises(CommonbrainError) as error:
        access.admit(None if credential is None else str(credential), address=address)
    return error.value


def altered(key: NewKey) -> KeyText:
    return KeyText(tenant=key.text.tenant, prefix=key.text.prefix, secret="0" * 48)
