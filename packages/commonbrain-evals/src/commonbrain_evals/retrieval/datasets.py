"""Every data set by its name; to add one, add a file and a row."""

from collections.abc import Mapping
from typing import Final

from commonbrain_evals.retrieval.beam import BEAM
from commonbrain_evals.retrieval.beir import BEIR
from commonbrain_evals.retrieval.corpora import DataSet
from commonbrain_evals.retrieval.locomo import LOCOMO
from commonbrain_evals.retrieval.longmemeval import LONGMEMEVAL
from commonbrain_evals.retrieval.own import OWN
from commonbrain_evals.retrieval.workdays import WORKDAYS

DATASETS: Final[Mapping[str, DataSet]] = {
    "locomo": LOCOMO,
    "beam": BEAM,
    "beir": BEIR,
    "longmemeval": LONGMEMEVAL,
    "own": OWN,
    "workdays": WORKDAYS,
}
