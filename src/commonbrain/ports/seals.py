"""How the secret of a key is kept: as a seal that it fits and that does not give it away."""

from typing import Protocol


class Seals(Protocol):
    """Seals secrets, and says whether one fits a seal."""

    def seal(self, secret: str) -> str:
        """Make a seal of a secret, another one each time."""
        ...

    def fits(self, seal: str | None, *, secret: str) -> bool:
        """Say whether a seal was made of this secret; without a seal it takes as long.

        Raises:
            Unavailable: too many are being checked at once.

        """
        ...
