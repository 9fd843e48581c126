"""Every data set by its name; to add one, add a file and a row."""

from collections.abc import Mapping
from typing import Final

from commonbrain.evals.retrieval.beam import BEAM
from commonbrain.evals.retrieval.beir import BEIR
from commonbrain.evals.retrieval.corpora import DataSet
from commonbrain.evals.retrieval.locomo import LOCOMO
from commonbrain.evals.retrieval.longmemeval import LONGMEMEVAL
from commonbrain.evals.retrieval.own import OWN

DATASETS: Final[Mapping[str, DataSet]] = {
    "locomo": LOCOMO,
    "beam": BEAM,
    "beir": BEIR,
    "longmemeval": LONGMEMEVAL,
    "own": OWN,
}
