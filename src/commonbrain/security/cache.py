"""A bounded in-process cache."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True, kw_only=True)
class TtlCache(Generic[K, V]):
    """A thread-safe cache that evicts the least recently used value."""

    most: int
    _values: OrderedDict[K, V] = field(default_factory=OrderedDict["K", "V"])
    _lock: Lock = field(default_factory=Lock)

    def get(self, name: K) -> V | None:
        """Return a value and mark it as used."""
        with self._lock:
            if name not in self._values:
                return None
            self._values.move_to_end(name)
            return self._values[name]

    def put(self, name: K, value: V) -> None:
        """Store a value."""
        with self._lock:
            self._values[name] = value
            self._values.move_to_end(name)
            while len(self._values) > self.most:
                self._values.popitem(last=False)

    def renew(self, name: K, value: V) -> None:
        """Replace a value if it is still in the cache."""
        with self._lock:
            if name in self._values:
                self._values[name] = value

    def items(self) -> list[tuple[K, V]]:
        """List all values without marking them as used."""
        with self._lock:
            return list(self._values.items())

    def drop(self, name: K) -> None:
        """Remove a value."""
        with self._lock:
            self._values.pop(name, None)
