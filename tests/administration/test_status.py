from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.model.kinds import Kind
from commonbrain.testing.builders import a_brain
from tests.asking import FailingEmbedder, remember_one, stored
from tests.in_process import default_model


def test_new_store_is_empty_and_sound(brain: Brain) -> None:
    status = brain.status()
    assert (status.memories, status.embedding_pending, status.traces_dropped) == (0, 0, 0)
    assert (status.by_kind, status.by_state) == ({}, {})
    assert (status.store, status.space) == (brain.services.store.location, "word-hash-1")
    assert brain.doctor().is_sound


@pytest.mark.requirement("LC-13")
def test_current_memories_are_counted_by_kind_and_all_by_state(brain: Brain) -> None:
    stored(brain, "The disk ran full", kind="incident")
    old = stored(brain, "The build runs on two cores", kind="fact")
    brain.revise.supersede(old, "The build runs on four cores", reason="upgrade")
    brain.forget(stored(brain, "Zebras live here", kind="fact"), reason="wrong")
    remember_one(brain, "Never trust the docs", kind="rule", trust="untrusted_web")
    status = brain.status()
    assert status.memories == 2
    assert status.by_kind == {Kind.INCIDENT: 1, Kind.FACT: 1}
    assert status.by_state == {"active": 2, "superseded": 1, "forgotten": 1, "quarantined": 1}
    assert brain.doctor().is_sound


def test_doctor_reports_an_embedder_that_is_down(path: Path) -> None:
    embedder = FailingEmbedder()
    with a_brain(path, embedder=embedder) as brain:
        embedder.is_down = True
        stored(brain, "The build runs on two cores", kind="fact")
        diagnosis = brain.doctor()
        assert not diagnosis.is_sound
        assert [one.check for one in diagnosis.findings if not one.is_sound] == ["embedder"]
        assert brain.status().embedding_pending == 1


def test_doctor_changes_nothing(brain: Brain) -> None:
    stored(brain, "The build runs on two cores", kind="fact")
    before = brain.status()
    brain.doctor()
    assert brain.status() == before


GERMAN = (
    "Das Passwort der Datenbank wird jeden Monat gewechselt",
    "Die Rechnungen werden nachts verschickt und nicht am Tag",
    "Der Testserver steht seit gestern in Frankfurt",
)


@pytest.mark.requirement("DO-33")
def test_store_of_many_languages_is_recommended_a_model_of_them(path: Path) -> None:
    def advice(brain: Brain) -> list[str]:
        return [one.detail for one in brain.doctor().findings if one.check == "languages"]

    with a_brain(path, embedder=default_model()) as brain:
        for number in range(8):
            stored(brain, f"The build number {number} runs on two cores", kind="fact")
        for text in GERMAN[:2]:
            stored(brain, text, kind="fact")
        assert advice(brain) == []
        stored(brain, GERMAN[2], kind="fact")
        assert advice(brain) == ["3 of the newest 11 memories are not in English"]
        assert brain.doctor().is_sound
    with a_brain(path.with_name("other.db")) as brain:
        for text in GERMAN:
            stored(brain, text, kind="fact")
        assert advice(brain) == []


@pytest.mark.requirement("DO-33")
def test_questions_in_other_languages_are_reason_enough(path: Path) -> None:
    with a_brain(path, embedder=default_model()) as brain:
        for text in ("Wo läuft der Build?", "Wer hat die Datenbank?", "Warum wird es langsam?"):
            brain.recall(text)
        brain.services.journal.flush()
        [finding] = [one for one in brain.doctor().findings if one.check == "languages"]
        assert finding.detail == "3 of the newest 3 questions are not in English"
        assert "brain embeddings build multilingual" in finding.hint
