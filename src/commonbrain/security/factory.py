"""Makes what comes with the extra `server`, and says so where that is not installed.

Who only uses a store on this machine loads none of it.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from commonbrain.clock import Clock
from commonbrain.model.errors import Invalid
from commonbrain.security.authentication import Access, Chain, Issuer
from commonbrain.security.quotas import Rates
from commonbrain.storage.administration import Refusals, Seals
from commonbrain.storage.interface import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What telling callers stands on."""

    store: Store
    clock: Clock
    refusals: Refusals
    rates: Rates
    seals: Seals


def make_seals() -> Seals:
    """Make what seals secrets.

    Raises:
        Invalid: `extra_missing`.

    """
    with _telling_of_the_extra():
        from commonbrain.security.passwords import Argon2Seals  # noqa: PLC0415

    return Argon2Seals()


def make_rates(redis_url: str | None = None) -> Rates:
    """Make what counts calls, in Redis if there is one.

    Raises:
        Invalid: `extra_missing`, or the address is none that Redis could have.

    """
    with _telling_of_the_extra():
        from commonbrain.security.rate_limits import shared_rates  # noqa: PLC0415

    try:
        return shared_rates(redis_url)
    except ValueError:
        raise Invalid(
            "COMMONBRAIN_REDIS_URL is no address of a Redis.",
            hint="Give it as redis://host:6379/0, or unset it.",
        ) from None


def make_access(ground: Ground, issuer: Issuer | None) -> Access:
    """Make what tells callers by their credentials; without an issuer, by keys alone.

    Raises:
        Invalid: `extra_missing`.

    """
    with _telling_of_the_extra():
        from commonbrain.security.api_keys import KeyAccess  # noqa: PLC0415

    keys = KeyAccess(
        store=ground.store,
        seals=ground.seals,
        clock=ground.clock,
        rates=ground.rates,
        refusals=ground.refusals,
    )
    return Chain(keys=keys, tokens=_token_access(ground, issuer) if issuer else None)


def _token_access(ground: Ground, issuer: Issuer) -> Access:
    with _telling_of_the_extra():
        from commonbrain.security.tokens import IssuerKeys, TokenAccess  # noqa: PLC0415

    return TokenAccess(
        store=ground.store,
        clock=ground.clock,
        refusals=ground.refusals,
        issuer=issuer,
        keys=IssuerKeys(issuer=issuer, clock=ground.clock),
    )


@contextmanager
def _telling_of_the_extra() -> Generator[None]:
    try:
        yield
    except ImportError as error:
        raise Invalid(
            f"This needs {(error.name or 'a library').partition('.')[0]}, which is not installed.",
            code="extra_missing",
            hint="Install it with: pip install 'commonbrain[server]'",
        ) from error
