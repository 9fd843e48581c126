"""How long an answer may take, and the name of what did not come in time."""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from commonbrain.domain.errors import Unavailable
from commonbrain.ports.clock import Clock

Wanted = TypeVar("Wanted")


@dataclass(frozen=True, slots=True)
class Deadline:
    """The moment past which nothing more is asked; without one there is always time."""

    clock: Clock
    at_ms: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether that moment has come."""
        return self.at_ms is not None and self.clock.elapsed_ms() >= self.at_ms

    @property
    def left_ms(self) -> float | None:
        """How long it is until then, below zero past it; None without one."""
        return None if self.at_ms is None else self.at_ms - self.clock.elapsed_ms()

    def await_(self, future: Future[Wanted]) -> Wanted:
        """Wait for what is under way, no longer than there is time.

        Raises:
            Unavailable: `deadline`, it is not there yet; or what it failed with.

        """
        if self.at_ms is None:
            return future.result()
        left_ms = self.at_ms - self.clock.elapsed_ms()
        try:
            if left_ms > 0:
                return future.result(left_ms / 1000)
        except TimeoutError:
            pass
        future.cancel()
        raise Unavailable("It did not answer in time.", code="deadline")
