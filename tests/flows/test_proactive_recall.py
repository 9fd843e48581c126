"""Recall for who did not ask: only what stands out, by meaning, or by words while that is late."""

import threading
from contextlib import closing
from pathlib import Path

from commonbrain.client import Brain
from commonbrain.embeddings.local import SPACE
from commonbrain.retrieval.retrievers import Threshold, apply_relevance_threshold
from commonbrain.storage.sqlite.driver import driver
from commonbrain.testing.builders import a_brain
from tests.flows.asking import FailingEmbedder, StuckEmbedder, stored

FOUND = {"lexical": {1: 3.0, 2: 9.0}, "vector": {1: 0.5, 3: 0.3}, "skill": {4: 1.0}}


def test_proactive_recall_drops_word_matches_without_semantic_similarity() -> None:
    query = apply_relevance_threshold(FOUND, Threshold(cosine=SPACE.relevance_threshold))
    proactive = apply_relevance_threshold(
        FOUND, Threshold(cosine=SPACE.relevance_threshold, is_proactive=True)
    )

    assert set(query["lexical"]) == {1, 2}
    assert {id_ for scores in proactive.values() for id_ in scores} == {1, 3, 4}


def test_proactive_recall_omits_a_memory_that_only_shares_a_word(brain: Brain) -> None:
    stored(brain, "The ferry leaves from pier 4 at dawn", kind="fact")
    question = "rename the ferry module and move its helpers to another folder of the tree"

    assert brain.recall(question).items
    assert not brain.recall(question, proactive=True).items
    assert brain.recall("the ferry leaves from which pier at dawn", proactive=True).items


def test_proactive_recall_uses_words_while_the_embedder_is_down(path: Path) -> None:
    embedder = FailingEmbedder()
    with a_brain(path, embedder=embedder) as brain:
        stored(brain, "The ferry leaves from pier 4 at dawn", kind="fact")
        embedder.is_down = True

        assert brain.recall("from which pier does the ferry leave", proactive=True).items
        assert not brain.recall("rename the ferry module, move its tests", proactive=True).items


def test_proactive_recall_omits_a_memory_linked_to_a_match_by_words(path: Path) -> None:
    embedder = StuckEmbedder()
    with a_brain(path, embedder=embedder) as brain:
        ferry = stored(brain, "The ferry leaves from pier 4 at dawn", kind="fact")
        stored(brain, "Lunch is at noon", kind="fact", derived_from=[ferry])
        question = "from which pier does the ferry leave"

        query = brain.recall(question, deadline_ms=50).items
        [item] = brain.recall(question, deadline_ms=50, proactive=True).items
        embedder.may_go.set()

    assert "Lunch is at noon" in [one.headline for one in query]
    assert item.id == ferry


def test_memory_of_a_recall_still_being_written_counts_as_shown(path: Path) -> None:
    question = "the ferry leaves from which pier at dawn"
    with a_brain(path) as ann:
        stored(ann, "The ferry leaves from pier 4 at dawn", kind="fact")
        brain = ann.acting_as(session="s1")
        assert brain.recall(question, proactive=True).items
        with closing(driver().connect(str(path), isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            # The queue is empty as soon as it waits for the other writer.
            flush = threading.Thread(target=brain.services.journal.flush)
            flush.start()
            while_written = [brain.recall(question, proactive=True).items for _ in range(20)]
            writer.execute("ROLLBACK")
        flush.join()
        afterwards = brain.recall(question, proactive=True).items

    assert not any(while_written)
    assert not afterwards
