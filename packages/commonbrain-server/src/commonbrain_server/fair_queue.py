"""A fair queue for a local model: the tenants of a server take turns, a few windows each."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from threading import Event, Lock
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar

from commonbrain.clock import UNTIL, check_awaited
from commonbrain.embeddings.interface import WindowEmbedder, embed_passages, unwrapped
from commonbrain.model.errors import BusyError
from commonbrain.model.limits import CALL_WINDOWS_MAX

if TYPE_CHECKING:
    from commonbrain.embeddings.interface import Embedder, EmbeddingSpace, Matrix

Item = TypeVar("Item")
Result = TypeVar("Result")

TURN_S: Final = 20.0
"""The longest wait for one turn: a full queue is worked off in half of it on two slow cores."""
_ROUNDS: Final = 4
"""Windows for each core in one turn: at most a quarter of a second, and the threads pay off."""
RETRY_AFTER_S: Final = 5
"""When to call again: by then a full queue is mostly worked off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Whose work it is: lanes take turns, and within a lane the first call is served first."""

    tenant: str
    is_background: bool = False
    """Whether nobody waits for it; such work is not limited, since jobs are few."""


@dataclass(slots=True, kw_only=True)
class _Waiter:
    size: int
    has_come: Event = field(default_factory=Event)


class FairQueue:
    """Lets calls use a model in turns, a few windows at a time; safe to use from several threads.

    Round robin over lanes, so that a tenant with much work delays another by one turn only.
    """

    def __init__(self, windows_at_once: int) -> None:
        self._windows_at_once = self._free = windows_at_once
        self._lock = Lock()
        self._numbers = count()
        self._admitted: Counter[Lane] = Counter()
        """Windows of unfinished calls, by lane."""
        self._waiting: dict[Lane, list[tuple[int, _Waiter]]] = {}
        """A heap for each lane with waiting calls, the oldest call first."""
        self._order: deque[Lane] = deque()
        """The lanes with waiting calls, the next one first."""

    @property
    def waiting(self) -> int:
        """The number of calls that wait for a turn."""
        with self._lock:
            return sum(map(len, self._waiting.values()))

    def run(
        self, lane: Lane, items: Sequence[Item], *, work: Callable[[Sequence[Item]], Result]
    ) -> list[Result]:
        """Do the work for all items, in turns of a few for each core.

        Raises:
            BusyError: the lane is full, or its turn did not come in time.
            DeadlineError: the caller no longer waits.

        """
        with self._admission(lane, len(items)) as number:
            results: list[Result] = []
            turn: _Waiter | None = None
            try:
                length = self._windows_at_once * _ROUNDS
                for start in range(0, len(items), length):
                    step = items[start : start + length]
                    check_awaited()
                    size = min(len(step), self._windows_at_once)
                    turn = self._next_turn(lane, before=turn, number=number, size=size)
                    until = UNTIL.get()
                    left_s = TURN_S if until is None else until - monotonic()
                    if not turn.has_come.wait(max(min(TURN_S, left_s), 0.0)):
                        raise _busy("Too many texts wait to be embedded.")
                    results.append(work(step))
            finally:
                self._leave(lane, turn)
            return results

    @contextmanager
    def _admission(self, lane: Lane, size: int) -> Generator[int]:
        """Give a call its number, by which the calls of a lane are served."""
        with self._lock:
            admitted = self._admitted[lane]
            is_full = bool(admitted) and admitted + size > CALL_WINDOWS_MAX
            if is_full and not lane.is_background:
                raise _busy(f"{admitted} windows of text wait to be embedded.")
            self._admitted[lane] += size
            number = next(self._numbers)
        try:
            yield number
        finally:
            with self._lock:
                self._admitted[lane] -= size
                if not self._admitted[lane]:
                    del self._admitted[lane]

    def _next_turn(self, lane: Lane, *, before: _Waiter | None, number: int, size: int) -> _Waiter:
        """End the last turn of a call and wait for its next one, ahead of later calls."""
        turn = _Waiter(size=size)
        with self._lock:
            if before is not None:
                self._free += before.size
            if lane not in self._waiting:
                self._waiting[lane] = []
                self._order.append(lane)
            heappush(self._waiting[lane], (number, turn))
            self._grant()
        return turn

    def _leave(self, lane: Lane, turn: _Waiter | None) -> None:
        """End the last turn of a call, or stop waiting for it."""
        if turn is None:
            return
        with self._lock:
            if turn.has_come.is_set():
                self._free += turn.size
            else:
                # Sorted lists are heaps.
                left = sorted(one for one in self._waiting[lane] if one[1] is not turn)
                self._waiting[lane] = left
                if not left:
                    del self._waiting[lane]
                    self._order.remove(lane)
            self._grant()

    def _grant(self) -> None:
        """Start the turns for which there is room; the next lane goes first, even if it is big."""
        while self._order:
            lane = self._order[0]
            _, turn = self._waiting[lane][0]
            if turn.size > self._free:
                return
            self._order.popleft()
            heappop(self._waiting[lane])
            if self._waiting[lane]:
                self._order.append(lane)
            else:
                del self._waiting[lane]
            self._free -= turn.size
            turn.has_come.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedEmbedder:
    """Embeds stored texts when it is the turn of their lane; a query never waits."""

    embedder: Embedder
    queue: FairQueue
    lane: Lane

    @property
    def space(self) -> EmbeddingSpace:
        """The space of the embedder."""
        return self.embedder.space

    def query(self, text: str) -> Matrix:
        """Embed a query at once, since it is one short window and a reader waits for it."""
        return self.embedder.query(text)

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed stored texts in turns if the model is local; endpoints have limits of their own.

        Raises:
            BusyError: too many texts of the tenant wait already.
            DeadlineError: the caller no longer waits.
            UnavailableError: `embedder_down`.

        """
        model = unwrapped(self.embedder)
        if not isinstance(model, WindowEmbedder):
            return self.embedder.passages(texts)

        def embed(windows: Sequence[object]) -> Matrix:
            import numpy as np  # noqa: PLC0415 commands without vectors do not import it

            return np.concatenate(self.queue.run(self.lane, windows, work=model.vectors))

        return embed_passages(texts, cut=model.windows, embed=embed)


def _busy(message: str) -> BusyError:
    return BusyError(message, hint="Send fewer at once.", retry_after_s=RETRY_AFTER_S)
