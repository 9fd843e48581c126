"""The shelf of model cards."""

from __future__ import annotations

from typing import Protocol

from commonbrain.domain.model_card import ModelCard, ModelRole


class Registry(Protocol):
    """The models of one tenant; of each role at most one is active, and one a canary."""

    def add(self, card: ModelCard) -> bool:
        """Put a card there, unless its id is taken; say whether."""
        ...

    def get(self, id_: int) -> ModelCard | None:
        """Give a card; None where there is none."""
        ...

    def listed(
        self, role: ModelRole | None = None, *, before: int | None = None, limit: int
    ) -> list[ModelCard]:
        """List cards, the newest first, or from before one of them on."""
        ...

    def serving(self, role: ModelRole) -> list[ModelCard]:
        """Give the active model and the canary of a role, as far as there are any."""
        ...

    def is_held(self, digest: str) -> bool:
        """Say whether any card has an artifact of this digest."""
        ...

    def move(self, before: ModelCard, after: ModelCard) -> bool:
        """Write what differs but for what a model is; say whether it was still as `before`.

        The digest may go, never become another. Nothing is written either where another of its role
        is active, or a canary, already.
        """
        ...
