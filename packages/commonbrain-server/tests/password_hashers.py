"""Keys that tests call with, and the errors of wrong ones."""

from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from commonbrain_server.security.authentication import Authenticator

from commonbrain.administration.tenants import NewKey
from commonbrain.model.agents import KeyText
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.limits import ACCESS_CACHE_S
from commonbrain.storage.interface import PasswordHasher

HERE = "192.0.2.7"
CACHED_QUERIES_MAX = timedelta(seconds=ACCESS_CACHE_S)


@dataclass
class CountingPasswordHasher:
    """The real password hasher, with every use counted."""

    real: PasswordHasher
    verified: list[bool] = field(default_factory=list[bool])

    def hash(self, secret: str) -> str:
        return self.real.hash(secret)

    def verify(self, hashed: str | None, *, secret: str) -> bool:
        is_match = self.real.verify(hashed, secret=secret)
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
