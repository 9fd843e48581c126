"""Turns given to plain remember: what is refused is listed, and what it repeats may answer."""

from dataclasses import replace
from pathlib import Path

import pytest
from commonbrain_evals.retrieval import refusals
from commonbrain_evals.retrieval.beam import BEAM
from commonbrain_evals.retrieval.corpora import Form
from commonbrain_evals.retrieval.locomo import LOCOMO
from commonbrain_evals.retrieval.notes import REPETITION, open_note_store, turns_of
from commonbrain_evals.retrieval.refusals import Wording
from commonbrain_evals.retrieval.running import EvalRequest, run
from commonbrain_evals.retrieval.stand import open_eval_store
from commonbrain_evals.retrieval.systems import RECALL

from commonbrain.config import Settings
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind
from tests.evals import samples


def test_turns_of_beam_share_the_session_of_their_batch(tmp_path: Path) -> None:
    [chat] = BEAM.read(BEAM.files(samples.beam(tmp_path)))
    turns = list(turns_of(chat))
    assert [one.session for one in turns] == ["1", "1", "2"]
    assert turns[0].note == "user: My port is 8080"


def test_refused_turns_are_listed_with_what_they_fell_to(tmp_path: Path) -> None:
    path = samples.locomo(tmp_path / "l.json", "one")
    again = path.read_text("utf-8").replace(
        "Pickle sleeps on the sofa and snores.", "I adopted a greyhound called Pickle last week!"
    )
    path.write_text(again, "utf-8")

    report = refusals.evaluate(path, settings=Settings())

    assert [(row.source, row.known_source, row.wording) for row in report.rows] == [
        ("one#D1:3", "one#D1:1", Wording.NAMED),
        ("one#D1:3", "one#D1:1", Wording.BARE),
    ]
    assert sum(one.turns for one in report.shares) == 8
    assert sum(one.refused for one in report.shares) == 2
    refusals.show_refusals(report)


def test_a_folder_of_chats_is_read_as_beam(tmp_path: Path) -> None:
    report = refusals.evaluate(samples.beam(tmp_path), settings=Settings())
    assert (report.conversations, report.rows) == (1, ())


def test_gold_that_repeats_other_gold_is_not_missing(tmp_path: Path) -> None:
    corpus = next(iter(LOCOMO.read(LOCOMO.files(samples.locomo(tmp_path / "l.json")))))
    with open_eval_store(corpus, settings=Settings(), seed=0, form=Form.NOTES) as store:
        assert {one.kind for one in store.memories.values()} != {Kind.MESSAGE}
        known = replace(store, said_by={"b": "a", "d": "c"})
    assert known.findable({"a": 1, "b": 1, "d": 1}) == {"a": 1, "d": 1}


@pytest.mark.parametrize(("form", "kind"), [(Form.NOTES, None), (Form.EVENTS, Kind.EVENT)])
def test_turns_are_found_as_notes_and_as_events(
    tmp_path: Path, form: Form, kind: Kind | None
) -> None:
    path = samples.locomo(tmp_path / "l.json", "one")
    found = run(EvalRequest(dataset="locomo", path=path, form=form), settings=Settings())
    assert found.setup.form == form
    assert found.memories == 4
    assert found.systems[RECALL]["all"]["R@10 mean"].mean == 1
    assert found.sessions
    corpus = next(iter(LOCOMO.read(LOCOMO.files(path))))
    with open_eval_store(corpus, settings=Settings(), seed=0, form=form) as store:
        assert kind is None or {one.kind for one in store.memories.values()} == {kind}


def test_similarity_alone_refuses_only_without_the_rule(tmp_path: Path) -> None:
    corpus = next(iter(LOCOMO.read(LOCOMO.files(samples.locomo(tmp_path / "l.json", "one")))))
    texts = ("The harbour ferry is painted blue.", "The harbour ferry is painted blue by Tom.")
    for without, status in (((), ItemStatus.STORED), ((REPETITION,), ItemStatus.DUPLICATE)):
        with open_note_store(settings=Settings(), start=corpus.ends_at, without=without) as store:
            results = [store.remember(store.brain, text)[0] for text in texts]
            assert results[1].status is status
            assert len(store.brain.recall("harbour ferry").items) == 1 + (not without)


def test_the_rule_for_repetitions_is_no_part_of_imports(tmp_path: Path) -> None:
    path = samples.locomo(tmp_path / "l.json", "one")
    with pytest.raises(InvalidInputError, match="no part 'repetition'"):
        run(EvalRequest(dataset="locomo", path=path, without=(REPETITION,)), settings=Settings())
