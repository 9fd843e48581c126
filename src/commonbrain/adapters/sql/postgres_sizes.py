"""How much each tenant has: what decides how it is searched, counted now and then."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import text

from commonbrain.adapters.sql.work import Work

_COUNT: Final = text(
    "SELECT count(*), coalesce(avg(length), 1) FROM memory_text WHERE tenant_id = :tenant"
)
_SHARE: Final = 100
"""Counted anew after so many searches as a hundredth of what there was: it costs little then."""
_WORDS_MAX: Final = 20_000
"""Words of one tenant whose counts are kept: about two megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many memories a tenant has that can be found, and how many words one has on average.

    It keeps how many memories have a word, once that was counted.
    """

    memories: int
    average_words: float
    _words: dict[tuple[str, str | None], int] = field(
        default_factory=dict["tuple[str, str | None]", int]
    )

    def known(self, words: list[str], *, among: str | None) -> dict[str, int]:
        """Give how many memories have each word, all of them or in one field, where it is known."""
        return {word: self._words[word, among] for word in words if (word, among) in self._words}

    def learn(self, counted: Mapping[str, int], *, among: str | None) -> None:
        """Keep what was counted until everything is counted anew."""
        if len(self._words) + len(counted) > _WORDS_MAX:
            self._words.clear()
        self._words.update({(word, among): count for word, count in counted.items()})


@dataclass(slots=True)
class Sizes:
    """What this process last counted, shared by its threads."""

    _known: dict[str, tuple[Size, int]] = field(default_factory=dict["str", "tuple[Size, int]"])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, work: Work) -> Size:
        """Give the size of a transaction's tenant, counted not long ago."""
        with self._lock:
            known, left = self._known.get(work.tenant, (None, 0))
            if known is not None and left > 0:
                self._known[work.tenant] = (known, left - 1)
                return known
        count, average = work.connection.execute(_COUNT, {"tenant": work.tenant}).one()
        counted = Size(memories=count, average_words=max(float(average), 1.0))
        with self._lock:
            self._known[work.tenant] = (counted, count // _SHARE)
        return counted
