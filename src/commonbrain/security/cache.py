"""What a process remembers for a while, within a bound."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True, kw_only=True)
class TtlCache(Generic[K, V]):
    """So many values; the longest unused makes room. Threads may share it."""

    most: int
    _values: OrderedDict[K, V] = field(default_factory=OrderedDict["K", "V"])
    _lock: Lock = field(default_factory=Lock)

    def get(self, name: K) -> V | None:
        """Give what is kept under a name, and count it as used."""
        with self._lock:
            if name not in self._values:
                return None
            self._values.move_to_end(name)
            return self._values[name]

    def put(self, name: K, value: V) -> None:
        """Keep a value under a name."""
        with self._lock:
            self._values[name] = value
            self._values.move_to_end(name)
            while len(self._values) > self.most:
                self._values.popitem(last=False)

    def renew(self, name: K, value: V) -> None:
        """Put a value in the place of what is kept under a name, if it is still kept."""
        with self._lock:
            if name in self._values:
                self._values[name] = value

    def items(self) -> list[tuple[K, V]]:
        """List what is kept, which counts as no use of it."""
        with self._lock:
            return list(self._values.items())

    def drop(self, name: K) -> None:
        """Forget what is kept under a name."""
        with self._lock:
            self._values.pop(name, None)
