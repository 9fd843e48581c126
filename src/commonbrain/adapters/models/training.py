"""Makes what trains rerankers and reads them, and says so where its libraries are missing."""

from commonbrain.adapters.extra import needed
from commonbrain.ports.learning import Trainer


def make_trainer() -> Trainer:
    """Load the library that learns.

    Raises:
        Invalid: `extra_missing`.

    """
    for library in ("lightgbm", "pytrec_eval", "scipy.stats"):
        needed(library, extra="learn")
    from commonbrain.adapters.models.boosting import Boosting  # noqa: PLC0415

    return Boosting()
