"""Makes what trains models of salience and reads them, and says so where a library is missing."""

from commonbrain.adapters.extra import needed
from commonbrain.ports.salience import SalienceTrainer


def make_salience_trainer() -> SalienceTrainer:
    """Load the library that learns.

    Raises:
        Invalid: `extra_missing`.

    """
    for library in ("lightgbm", "scipy.stats"):
        needed(library, extra="learn")
    from commonbrain.adapters.models.salience import SalienceBoosting  # noqa: PLC0415

    return SalienceBoosting()
