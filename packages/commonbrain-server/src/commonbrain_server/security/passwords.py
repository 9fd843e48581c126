"""Password hashing with argon2id; requires the extra `server`."""

from threading import BoundedSemaphore
from typing import Final

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError

from commonbrain.model.errors import UnavailableError
from commonbrain_server.security.key_texts import SECRET_CHARS

# The first choice of OWASP's password storage cheat sheet: 19 MiB, 2 passes, 1 lane. Secrets have
# 192 random bits, so a stronger hash would add no security and make brute force attempts cost the
# server more. 25 ms of processor time each.
MEMORY_KIB: Final = 19 * 1024
PASSES: Final = 2
LANES: Final = 1
CONCURRENT_MAX: Final = 2
"""Concurrent verifications: 38 MiB in total, and processor time is left for other calls."""
TIMEOUT_S: Final = 5.0


class Argon2PasswordHasher:
    """Hashes secrets with argon2id."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher(
            time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES, type=Type.ID
        )
        self._slots = BoundedSemaphore(CONCURRENT_MAX)
        # Verified when there is no key, so that this takes as long as with one.
        self._dummy = self._hasher.hash("0" * SECRET_CHARS)

    def hash(self, secret: str) -> str:
        """Return a salted hash of a secret."""
        return self._hasher.hash(secret)

    def verify(self, hashed: str | None, *, secret: str) -> bool:
        """Whether the hash is of this secret; without a hash the check takes as long."""
        if not self._slots.acquire(timeout=TIMEOUT_S):
            raise UnavailableError(
                "Too many credentials are being checked.", hint="Try again in some seconds."
            )
        try:
            is_match = self._hasher.verify(hashed or self._dummy, secret)
        except (VerifyMismatchError, VerificationError, InvalidHashError):
            return False
        finally:
            self._slots.release()
        return is_match and hashed is not None
