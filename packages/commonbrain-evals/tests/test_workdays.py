import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from commonbrain_evals import cli
from commonbrain_evals.retrieval.corpora import Corpus
from commonbrain_evals.retrieval.eval_store import EvalStore, open_eval_store
from commonbrain_evals.retrieval.workdays import SHIPPED, WORKDAYS
from commonbrain_models.calibration import CalibrationSplit, split_of
from typer.testing import CliRunner

from commonbrain.config import Settings
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind, TaskDetail, TaskStatus
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Memory, State
from commonbrain.model.scope import Trust

NOTE = {
    "at": "2026-03-02T08:00",
    "project": "pagoda",
    "agent": "nadia",
    "id": "a",
    "text": "It rains.",
}
ASKED = {
    "id": "q",
    "project": "pagoda",
    "agent": "nadia",
    "question": "does it rain?",
    "gold": ["a"],
    "category": "fact",
}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    [corpus] = WORKDAYS.read(WORKDAYS.files(SHIPPED))
    return corpus


@pytest.fixture(scope="module")
def store(corpus: Corpus) -> Iterator[EvalStore]:
    with open_eval_store(corpus, settings=Settings(), seed=0) as store:
        yield store


def noted(store: EvalStore, name: str) -> Memory:
    [id_] = (id_ for id_, source in store.source_of.items() if source == name)
    return store.memories[id_]


def written(folder: Path, *notes: object, asked: object = ASKED) -> Path:
    lines = "\n".join(map(json.dumps, notes))
    (folder / "workdays.jsonl").write_text(lines, "utf-8")
    (folder / "workday_questions.jsonl").write_text(json.dumps(asked), "utf-8")
    return folder


def lived(folder: Path) -> None:
    [corpus] = WORKDAYS.read(WORKDAYS.files(folder))
    with open_eval_store(corpus, settings=Settings(), seed=0):
        pass


def test_questions_have_an_answer_and_both_halves(corpus: Corpus) -> None:
    questions = corpus.questions

    assert len(questions) >= 80
    assert all(
        question.gold and not set(question.gold) & set(question.not_first) for question in questions
    )
    assert {split_of(question.id) for question in questions} == set(CalibrationSplit)


def test_notes_have_project_agent_session_trust_and_links(store: EvalStore) -> None:
    web = noted(store, "pg-pool-blog")
    cause, effect = noted(store, "cause-tz"), noted(store, "inc-fines")
    with store.services.store.snapshot(store.brain.caller.tenant) as tx:
        links = tx.links.touching([cause.id])

    assert (web.project, web.agent, web.session) == ("pagoda", "builder", "pg-1")
    assert web.trust is Trust.UNTRUSTED_WEB
    assert noted(store, "cap-err1").auto_captured
    assert effect.kind is Kind.INCIDENT
    assert (effect.id, LinkType.CAUSES) in {(link.to_id, link.type) for link in links}


def test_what_was_revised_rated_and_done_is_so_in_the_store(store: EvalStore) -> None:
    task = noted(store, "task-queue").detail

    assert noted(store, "pg-fine").state is State.SUPERSEDED
    assert noted(store, "wk-b").rating == 2
    assert noted(store, "rule-migr").pinned
    assert isinstance(task, TaskDetail)
    assert task.status is TaskStatus.DONE


def test_notes_that_cannot_be_lived_through_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="not stored"):
        lived(written(tmp_path, NOTE, {**NOTE, "id": "b"}))
    with pytest.raises(InvalidInputError, match="no step 'paint'"):
        lived(written(tmp_path, NOTE, {**NOTE, "id": None, "do": "paint", "on": "a"}))
    with pytest.raises(InvalidInputError, match="there is no note"):
        lived(written(tmp_path, NOTE, asked={**ASKED, "gold": ["z"]}))
    (tmp_path / "workdays.jsonl").unlink()
    with pytest.raises(InvalidInputError, match=r"no workdays\.jsonl"):
        lived(tmp_path)


@pytest.mark.requirement("EV-03")
def test_only_data_that_ships_with_the_package_needs_no_path(tmp_path: Path) -> None:
    shell = CliRunner()
    out = ["--out", str(tmp_path / "run.json")]

    done = shell.invoke(cli.app, ["run", "workdays", "--questions", "3", *out])
    refused = shell.invoke(cli.app, ["run", "locomo", *out])

    assert done.exit_code == 0
    assert "3 questions with evidence" in done.output
    assert isinstance(refused.exception, InvalidInputError)
