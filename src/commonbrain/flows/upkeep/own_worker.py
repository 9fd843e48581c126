"""Work on jobs beside a server of one client: where nobody else works, this one does."""

from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Thread, Timer
from typing import Final

from commonbrain.domain.errors import CommonbrainError
from commonbrain.flows.house import House
from commonbrain.flows.upkeep.task import MAINTAIN
from commonbrain.flows.upkeep.worker import Worker, worker_name

QUIET_S: Final = 10.0
"""A client that has just come has the machine to itself."""
_SWEEP_MS: Final = 60_000
"""What this process is asked for it knows at once; the rest is in no hurry."""
_PATIENCE_S: Final = 1.0
"""How long leaving waits for the step under way; after it, another has the job a minute later."""


@dataclass(slots=True)
class OwnWorker:
    """A thread that works on jobs, where the house says so, until it is closed."""

    house: House
    quiet_s: float = QUIET_S
    _stop: Event = field(default_factory=Event)
    _thread: Thread | None = None

    def start(self) -> None:
        """Begin in a while."""
        if self.house.has_own_worker:
            self._thread = Thread(target=self._work, daemon=True, name="worker")
            self._thread.start()

    def close(self) -> None:
        """Have it give back its job and end; waits for the step under way, but not for long."""
        self._stop.set()
        if self._thread is not None:
            self.house.queue.close()
            self._thread.join(_PATIENCE_S)

    def _work(self) -> None:
        if self._stop.wait(self.quiet_s):
            return
        house, stop = self.house, self._stop
        worker = Worker(house=house, name=worker_name(house), stop=stop, sweep_ms=_SWEEP_MS)
        # Whatever keeps it from working is told to who calls, and to who asks for its jobs.
        with suppress(CommonbrainError):
            worker.run()


def keep_a_while(house: House, *, seconds: float) -> None:
    """Do a slice of the upkeep that is due, where nobody else may ever work; then give it back.

    What it came to is kept, and the next one goes on from there.
    """
    if not house.has_own_worker or seconds <= 0:
        return
    worker = Worker(house=house, name=worker_name(house), kinds=(MAINTAIN,))
    over = Timer(seconds, worker.stop.set)
    over.daemon = True
    over.start()
    with suppress(CommonbrainError):
        worker.schedule()
        worker.sweep()
    over.cancel()
