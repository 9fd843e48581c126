"""Training whose worker is killed: it ends once, with the model of its twin."""

from pathlib import Path

import pytest
from test_training import ENOUGH, use
from test_training_salience import write

from commonbrain.testing.builders import a_brain
from tests.faults.test_jobs_killed import Case, check_ends_once


def with_outcomes(path: Path) -> None:
    with a_brain(path) as brain:
        write(brain)


def with_marks(path: Path) -> None:
    with a_brain(path) as brain:
        use(brain, feature="replies")


CASES = {
    "train_salience": Case(fill=with_outcomes),
    "train_reranker": Case(fill=with_marks, given={**ENOUGH, "lookback_days": 120}),
}


@pytest.mark.requirement("JB-05", "JB-10")
@pytest.mark.parametrize("kind", CASES)
def test_training_of_a_killed_worker_ends_once_with_the_model_of_its_twin(
    tmp_path: Path, kind: str
) -> None:
    source = tmp_path / "filled"
    source.mkdir()
    CASES[kind].fill(source / "brain.db")
    with a_brain(source / "brain.db") as brain:
        for job in brain.jobs().jobs:
            brain.jobs.cancel(job.id)

    check_ends_once(source, tmp_path, kind=kind, case=CASES[kind])
