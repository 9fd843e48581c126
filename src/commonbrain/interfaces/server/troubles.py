"""What callers from elsewhere are told when something that the server needs does not answer."""

import logging
from dataclasses import dataclass, field
from typing import Final

from commonbrain.domain.errors import CommonbrainError, Corrupt, Unavailable

_LOG: Final = logging.getLogger(__name__)
_HINT: Final = (
    "The server's log tells the cause. Ask again later; a write, with the same idempotency key."
)
_NEEDED: Final = {
    "store": "The server's store",
    "queue": "The server's queue",
    "embedder": "The server's embedder",
    "extractor": "The server's extractor",
}
"""By the first word of a code; what else may be unavailable is not the server's own affair."""


@dataclass(slots=True)
class Troubles:
    """Keeps what is wrong for the log, which tells of each trouble once until it is over."""

    known: set[str] = field(default_factory=set[str])
    """The codes of what is wrong."""

    def afar(self, error: CommonbrainError) -> CommonbrainError:
        """Give an error without where things lie: its message may name files and hosts."""
        needed = _NEEDED.get(error.code.partition("_")[0])
        if needed is None or not isinstance(error, Unavailable | Corrupt):
            return error
        self.note(error)
        return type(error)(f"{needed} cannot do this now.", code=error.code, hint=_HINT)

    def note(self, error: CommonbrainError) -> None:
        """Write down what is wrong, unless it was wrong already."""
        if error.code not in self.known:
            self.known.add(error.code)
            _LOG.warning("not ready: %s: %s", error.code, error)

    def over(self) -> None:
        """Write down that all is well again, where it was not."""
        if self.known:
            self.known.clear()
            _LOG.warning("ready again")
