"""Keys that tests call with, and what is said to who calls with others."""

from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from commonbrain.domain.credentials import KeyText
from commonbrain.domain.errors import CommonbrainError
from commonbrain.domain.limits import (
    ACCESS_KEPT_S,
)
from commonbrain.flows.governing import NewKey
from commonbrain.ports.access import Access
from commonbrain.ports.seals import Seals

HERE = "192.0.2.7"
KEPT = timedelta(seconds=ACCESS_KEPT_S)


@dataclass
class CountingSeals:
    """The real seals, with every use of them counted."""

    real: Seals
    asked: list[bool] = field(default_factory=list[bool])

    def seal(self, secret: str) -> str:
        return self.real.seal(secret)

    def fits(self, seal: str | None, *, secret: str) -> bool:
        fits = self.real.fits(seal, secret=secret)
        self.asked.append(seal is not None)
        return fits


def refusal(access: Access, credential: object, address: str | None = HERE) -> CommonbrainError:
    with pytest.raises(CommonbrainError) as told:
        access.admit(None if credential is None else str(credential), address=address)
    return told.value


def altered(key: NewKey) -> KeyText:
    return KeyText(tenant=key.text.tenant, prefix=key.text.prefix, secret="0" * 48)
