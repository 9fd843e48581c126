"""What the house needs of a screen: a text in, the secrets it holds out."""

from __future__ import annotations

from typing import Protocol

from commonbrain.domain.screening import Found


class Screen(Protocol):
    """Finds credentials in a text before anything else sees it; safe to call from several threads.

    Laws: the answer depends on the text alone; stretches lie inside it, in order, and do not
    overlap; what `redacted` makes of a text holds no certain secret; time is linear in the length.
    """

    def find(self, text: str) -> list[Found]:
        """Find what is a secret, or looks like one."""
        ...
