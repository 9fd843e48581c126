"""What one recall does otherwise than all others.

So an evaluation learns what each part is worth. Arms and features are named as in their tables,
`ARMS` and `WEIGHTS`; what else can be left out is named here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

STAGES: Final[Mapping[str, str]] = {
    "names": "Leaving the names of who said things out of what is embedded.",
    "threshold": "Leaving out what shares no word with the query and whose meaning is too far.",
    "passages": "Scoring messages by what was said around them too, and those with them.",
    "verdict": "Telling what seems to answer from what only comes nearest, which is cut short.",
    "links": "Following the links of the best candidates.",
    "rerank": "Ordering by the model that serves, where one does.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What is left out and what weighs otherwise; as it comes, nothing."""

    without: frozenset[str] = frozenset()
    """Arms that are not asked, features that weigh nothing, stages that are passed over."""
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    """Other weights than those of the tables, by the name of an arm or a feature."""

    def has(self, name: str) -> bool:
        """Say whether an arm or a stage takes part."""
        return name not in self.without

    def of(self, table: Mapping[str, float]) -> Mapping[str, float]:
        """Give the weights of a table as they are to be here."""
        if not self.without and not self.weights:
            return table
        return {
            name: self.weights.get(name, usual) if self.has(name) else 0.0
            for name, usual in table.items()
        }


AS_EVER: Final = Tuning()
