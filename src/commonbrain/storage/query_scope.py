"""The look: who searches for what at which moment."""

from dataclasses import dataclass
from datetime import datetime

from commonbrain.model.query import Filter
from commonbrain.model.scope import Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryScope:
    """Who looks for what at which moment: what every search of the store is confined to."""

    caller: Caller
    filter: Filter
    now: datetime
