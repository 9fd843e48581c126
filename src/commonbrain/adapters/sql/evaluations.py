"""The shelf of evaluations."""

from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import RowMapping, Select, delete, func, select

from commonbrain.adapters.sql.evaluation_tables import evaluations
from commonbrain.adapters.sql.work import Work
from commonbrain.domain.evaluation import Evaluation, Figure


@dataclass(frozen=True, slots=True)
class EvaluationShelf:
    """Evaluations of one tenant in one transaction."""

    work: Work

    def add(self, evaluation: Evaluation) -> bool:
        """Keep one, unless its id is taken; say whether."""
        row = {**asdict(evaluation), "setup": dict(evaluation.setup)}
        return self.work.add(evaluations, {"tenant_id": self.work.tenant, **row})

    def listed(self, name: str, *, limit: int) -> list[Evaluation]:
        """List those of a name, the newest first."""
        table = evaluations.c
        columns = [column for column in table if column.name != "tenant_id"]
        here = select(*columns).where(table.tenant_id == self.work.tenant, table.name == name)
        rows = self.work.connection.execute(here.order_by(table.id.desc()).limit(limit)).mappings()
        return [Evaluation(**_told(row)) for row in rows]

    def surplus(self, *, keep: int) -> int:
        """Count those that have so many newer ones of their name."""
        old = self._older(keep).subquery()
        return self.work.connection.execute(select(func.count()).select_from(old)).scalar_one()

    def drop(self, *, keep: int, limit: int) -> int:
        """Drop those, the oldest first."""
        table, old = evaluations.c, self._older(keep).subquery()
        page = select(old.c.id).order_by(old.c.id).limit(limit)
        here = delete(evaluations).where(table.tenant_id == self.work.tenant, table.id.in_(page))
        return self.work.connection.execute(here).rowcount

    def _older(self, keep: int) -> Select[tuple[int]]:
        """Find what has so many newer ones of its name."""
        table = evaluations.c
        newer = func.row_number().over(partition_by=table.name, order_by=table.id.desc())
        ranked = select(table.id, newer.label("place")).where(table.tenant_id == self.work.tenant)
        known = ranked.subquery()
        return select(known.c.id).where(known.c.place > keep)


def _told(row: RowMapping) -> dict[str, Any]:
    figures = {name: Figure(**one) for name, one in row["figures"].items()}
    return {**row, "figures": figures}
