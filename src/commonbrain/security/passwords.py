"""Seals by argon2id; comes with the extra `server`."""

from threading import BoundedSemaphore
from typing import Final

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError

from commonbrain.model.agents import SECRET_CHARS
from commonbrain.model.errors import UnavailableError

# OWASP's password storage cheat sheet names 19 MiB, 2 passes, 1 lane as its first choice. A secret
# here has 192 random bits, so the hash need not make up for a weak one: more would only make
# guessers at the door dearer to the server. 25 ms of processor time each.
MEMORY_KIB: Final = 19 * 1024
PASSES: Final = 2
LANES: Final = 1
AT_ONCE_MAX: Final = 2
"""Checked at the same time: 38 MiB, and what other calls leave of two processors."""
WAIT_S: Final = 5.0


class Argon2PasswordHasher:
    """Seals secrets with argon2id."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher(
            time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES, type=Type.ID
        )
        self._turns = BoundedSemaphore(AT_ONCE_MAX)
        # What is checked where there is no key, so that this takes as long as where there is one.
        self._nobodys = self._hasher.hash("0" * SECRET_CHARS)

    def seal(self, secret: str) -> str:
        """Make a seal of a secret, another one each time."""
        return self._hasher.hash(secret)

    def fits(self, seal: str | None, *, secret: str) -> bool:
        """Say whether a seal was made of this secret; without a seal it takes as long."""
        if not self._turns.acquire(timeout=WAIT_S):
            raise UnavailableError(
                "Too many credentials are being checked.", hint="Try again in some seconds."
            )
        try:
            is_right = self._hasher.verify(seal or self._nobodys, secret)
        except (VerifyMismatchError, VerificationError, InvalidHashError):
            return False
        finally:
            self._turns.release()
        return is_right and seal is not None
