"""The shelf of what was noted beside memories."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Final

from sqlalchemy import bindparam, delete, select

from commonbrain.adapters.sql.many import LISTED
from commonbrain.adapters.sql.tables import annotations
from commonbrain.adapters.sql.work import Work
from commonbrain.ports.history import Annotation

_FIELDS: Final = tuple(field.name for field in fields(Annotation))
_OF: Final = (
    select(*(annotations.c[name] for name in _FIELDS))
    .where(
        annotations.c.tenant_id == bindparam("tenant"),
        annotations.c.memory_id.in_(LISTED),
    )
    .order_by(annotations.c.id)
)


@dataclass(frozen=True, slots=True)
class AnnotationShelf:
    """Annotations of one tenant in one transaction."""

    work: Work

    def add(self, annotation: Annotation) -> int:
        """Append one; give its id."""
        return self.work.append(annotations, asdict(annotation), at=annotation.at)

    def merge(self, annotation: Annotation) -> bool:
        """Take in an annotation of another store under its own id; False when it is known."""
        return self.work.add(annotations, {"tenant_id": self.work.tenant, **asdict(annotation)})

    def drop(self, annotation_id: int) -> None:
        """Take one away."""
        here = annotations.c.tenant_id == self.work.tenant, annotations.c.id == annotation_id
        self.work.connection.execute(delete(annotations).where(*here))

    def of(self, ids: Sequence[int]) -> dict[int, list[Annotation]]:
        """Give the annotations of memories, oldest first; memories without any are absent."""
        if not ids:
            return {}
        found: defaultdict[int, list[Annotation]] = defaultdict(list)
        for row in self.work.rows(_OF, {"ids": list(ids)}):
            one = Annotation(**dict(zip(_FIELDS, row, strict=True)))
            found[one.memory_id].append(one)
        return dict(found)
