"""Turns given to plain remember: what is refused is listed, and what it repeats may answer."""

from pathlib import Path

import pytest
from commonbrain_evals.retrieval import refusals
from commonbrain_evals.retrieval.beam import BEAM
from commonbrain_evals.retrieval.corpora import Form
from commonbrain_evals.retrieval.eval_store import open_eval_store
from commonbrain_evals.retrieval.locomo import LOCOMO
from commonbrain_evals.retrieval.notes import REPETITION, open_note_store, turns_of
from commonbrain_evals.retrieval.refusals import Wording
from commonbrain_evals.retrieval.running import EvalRequest, run
from commonbrain_evals.retrieval.statebench import is_marked
from commonbrain_evals.retrieval.systems import RECALL

from commonbrain.config import Settings
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind
from commonbrain.retrieval.query_plan import RetrievalOverrides
from commonbrain.retrieval.service import Recall
from commonbrain.testing.builders import NOON
from tests.evals import samples


def repeating(path: Path) -> Path:
    """Write a sample whose third turn repeats the first."""
    again = "I adopted a greyhound called Pickle last week!"
    text = samples.locomo(path, "one").read_text("utf-8")
    path.write_text(text.replace("Pickle sleeps on the sofa and snores.", again), "utf-8")
    return path


def test_turns_of_beam_share_the_session_of_their_batch(tmp_path: Path) -> None:
    [chat] = BEAM.read(BEAM.files(samples.beam(tmp_path)))
    turns = list(turns_of(chat))
    assert [one.session for one in turns] == ["1", "1", "2"]
    assert turns[0].note == "user: My port is 8080"


def test_refused_turns_are_listed_with_the_turns_they_repeat(tmp_path: Path) -> None:
    report = refusals.evaluate(repeating(tmp_path / "l.json"), settings=Settings())

    assert [(row.source, row.known_source, row.wording) for row in report.rows] == [
        ("one#D1:3", "one#D1:1", Wording.NAMED),
        ("one#D1:3", "one#D1:1", Wording.BARE),
        ("one#D1:3", "one#D1:1", Wording.SENTENCES),
    ]
    assert sum(one.texts for one in report.shares) == 12
    assert sum(one.refused for one in report.shares) == 3
    refusals.show_refusals(report)


def test_texts_that_outdate_another_are_listed(tmp_path: Path) -> None:
    path = samples.locomo(tmp_path / "l.json", "one")
    assert refusals.evaluate(path, settings=Settings()).changes == ()

    later = "Pickle no longer sleeps on the sofa."
    text = path.read_text("utf-8").replace("The boiler broke again, I ordered a heat pump.", later)
    path.write_text(text, "utf-8")
    report = refusals.evaluate(path, settings=Settings())

    assert {change.text for change in report.changes} >= {later}
    assert sum(one.outdating for one in report.shares) == len(report.changes)
    refusals.show_refusals(report)


def test_folder_of_chats_is_read_as_beam(tmp_path: Path) -> None:
    report = refusals.evaluate(samples.beam(tmp_path), settings=Settings())
    assert (report.conversations, report.rows) == (1, ())


def test_refused_turn_counts_as_missing_unless_the_turn_it_repeats_is_also_evidence(
    tmp_path: Path,
) -> None:
    corpus = next(iter(LOCOMO.read(LOCOMO.files(repeating(tmp_path / "l.json")))))
    with open_eval_store(corpus, settings=Settings(), seed=0, form=Form.NOTES) as store:
        assert Kind.MESSAGE not in {one.kind for one in store.memories.values()}
        assert (store.report.read, store.report.stored) == (4, 3)
        assert store.said_by == {"one#D1:3": "one#D1:1"}
        assert store.findable({"one#D1:1": 1, "one#D1:3": 1}) == {"one#D1:1": 1}
        assert store.findable({"one#D1:2": 1, "one#D1:3": 1}) == {"one#D1:2": 1, "one#D1:3": 1}


@pytest.mark.parametrize(("form", "kind"), [(Form.NOTES, None), (Form.EVENTS, Kind.EVENT)])
def test_turns_stored_as_notes_and_as_events_are_found(
    tmp_path: Path, form: Form, kind: Kind | None
) -> None:
    path = samples.locomo(tmp_path / "l.json", "one")
    record = run(EvalRequest(dataset="locomo", path=path, form=form), settings=Settings())
    assert record.setup.form == form
    assert record.memories == 4
    assert record.systems[RECALL]["all"]["R@10 mean"].mean == 1
    assert record.sessions
    corpus = next(iter(LOCOMO.read(LOCOMO.files(path))))
    with open_eval_store(corpus, settings=Settings(), seed=0, form=form) as store:
        assert kind is None or {one.kind for one in store.memories.values()} == {kind}


def test_similar_text_is_refused_only_without_the_repetition_rule(tmp_path: Path) -> None:
    corpus = next(iter(LOCOMO.read(LOCOMO.files(samples.locomo(tmp_path / "l.json", "one")))))
    texts = ("The harbour ferry is painted blue.", "The harbour ferry is painted blue by Tom.")
    for without, status in (((), ItemStatus.STORED), ((REPETITION,), ItemStatus.DUPLICATE)):
        with open_note_store(settings=Settings(), start=corpus.ends_at, without=without) as store:
            results = [store.remember(store.brain, text)[0] for text in texts]
            assert results[1].status is status
            assert len(store.brain.recall("harbour ferry").items) == 1 + (not without)


def test_repetition_rule_cannot_be_left_out_of_a_run_that_imports(tmp_path: Path) -> None:
    path = samples.locomo(tmp_path / "l.json", "one")
    with pytest.raises(InvalidInputError, match="no part 'repetition'"):
        run(EvalRequest(dataset="locomo", path=path, without=(REPETITION,)), settings=Settings())


def test_change_marks_nothing_without_change_detection() -> None:
    with open_note_store(settings=Settings(), start=NOON) as store:
        view = store.brain.acting_as(session="s1")
        store.remember(view, "The venue is booked for 80 people.")
        store.advance_to(NOON)
        [item] = store.remember(view, "The venue is now booked for 120 people.")
        assert item.changes
        marked = [
            [is_marked(one) for one in recall("For how many people is the venue?").items]
            for recall in (
                Recall(view.services, view.caller, RetrievalOverrides(without=frozenset(without)))
                for without in ((), ("changes",))
            )
        ]
    assert (any(marked[0]), any(marked[1])) == (True, False)
