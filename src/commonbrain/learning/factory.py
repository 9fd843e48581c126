"""Creates trainers, or reports that the extra `learn` is missing."""

from __future__ import annotations

from commonbrain.extras import load_extra
from commonbrain.learning.interface import SalienceTrainer, Trainer


def make_trainer() -> Trainer:
    """Create the trainer of rerankers.

    Raises:
        InvalidInputError: `extra_missing`.

    """
    for library in ("lightgbm", "pytrec_eval", "scipy.stats"):
        load_extra(library, extra="learn")
    from commonbrain.learning.boosting import BoostingTrainer  # noqa: PLC0415

    return BoostingTrainer()


def make_salience_trainer() -> SalienceTrainer:
    """Create the trainer of salience models.

    Raises:
        InvalidInputError: `extra_missing`.

    """
    for library in ("lightgbm", "scipy.stats"):
        load_extra(library, extra="learn")
    from commonbrain.learning.salience_model import SalienceBoosting  # noqa: PLC0415

    return SalienceBoosting()
