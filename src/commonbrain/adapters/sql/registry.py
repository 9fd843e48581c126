"""The shelf of model cards."""

from dataclasses import asdict, dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, exists, select, update

from commonbrain.adapters.sql.ledger_tables import models
from commonbrain.adapters.sql.work import Work
from commonbrain.domain.model_card import SERVING, ModelCard, ModelRole

_MOVES: Final = ("digest", "state", "percent", "allow", "moved_at", "reason")
_UNMOVED: Final = ("digest", "state", "moved_at")
"""What tells that nobody has moved a card, nor dropped its artifact, since it was read."""
_CARD: Final = select(*(column for column in models.columns if column.name != "tenant_id"))


@dataclass(frozen=True, slots=True)
class RegistryShelf:
    """Model cards of one tenant in one transaction."""

    work: Work

    def add(self, card: ModelCard) -> bool:
        """Put a card there, unless its id is taken; say whether."""
        return self.work.add(models, {"tenant_id": self.work.tenant, **_row(card)})

    def get(self, id_: int) -> ModelCard | None:
        """Give a card."""
        return next(iter(self._all(_CARD.where(self._here(models.c.id == id_)))), None)

    def listed(
        self, role: ModelRole | None = None, *, before: int | None = None, limit: int
    ) -> list[ModelCard]:
        """List cards, the newest first."""
        wanted = _CARD.where(self._here())
        if role is not None:
            wanted = wanted.where(models.c.role == role)
        if before is not None:
            wanted = wanted.where(models.c.id < before)
        return self._all(wanted.order_by(models.c.id.desc()).limit(limit))

    def serving(self, role: ModelRole) -> list[ModelCard]:
        """Give the active model and the canary of a role."""
        serves = models.c.state.in_(sorted(SERVING))
        return self._all(_CARD.where(self._here(models.c.role == role, serves)))

    def is_held(self, digest: str) -> bool:
        """Say whether any card has an artifact of this digest."""
        here = self._here(models.c.digest == digest)
        return self.work.connection.execute(select(exists().where(here))).scalar_one()

    def move(self, before: ModelCard, after: ModelCard) -> bool:
        """Write what differs, unless it was moved meanwhile or its place is taken."""
        unmoved = [models.c[name] == getattr(before, name) for name in _UNMOVED]
        here = self._here(models.c.id == before.id, *unmoved)
        if after.state in SERVING and after.state is not before.state:
            other = models.alias()
            taken = select(other.c.id).where(
                other.c.tenant_id == self.work.tenant,
                other.c.role == after.role,
                other.c.state == after.state,
            )
            here = and_(here, ~exists(taken))
        row = _row(after)
        statement = update(models).where(here).values({name: row[name] for name in _MOVES})
        return self.work.connection.execute(statement).rowcount > 0

    def _here(self, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
        return and_(models.c.tenant_id == self.work.tenant, *conditions)

    def _all(self, question: Select[Any]) -> list[ModelCard]:
        rows = self.work.connection.execute(question).mappings()
        return [ModelCard(**row) for row in rows]


def _row(card: ModelCard) -> dict[str, Any]:
    return {**asdict(card), "told": dict(card.told)}
