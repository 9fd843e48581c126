"""Recall for an agent that did not ask: the best of recall in its order, or nothing."""

import threading
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from commonbrain.client import Brain
from commonbrain.model.recall_result import NEWER
from commonbrain.storage.sqlite.driver import driver
from commonbrain.testing.builders import FakeClock, a_brain
from tests.asking import FailingEmbedder, StuckEmbedder, stored


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


def test_current_version_comes_first_and_a_stale_one_is_not_shown(
    brain: Brain, clock: FakeClock
) -> None:
    for number, (stale, current, prompt) in enumerate(
        (
            (
                "The upload limit of the api is 10 MB",
                "The upload limit of the api is now 50 MB",
                "what is the upload limit of the api?",
            ),
            (
                "The ferry leaves from pier 4 at dawn",
                "We moved the ferry from pier 4 to pier 7 at dawn",
                "from which pier does the ferry leave at dawn?",
            ),
        )
    ):
        project = f"p{number}"
        view = brain.acting_as(session=f"s{number}")
        stored(view, stale, kind="fact", project=project)
        clock.move(timedelta(days=7))
        newer = stored(view, current, kind="fact", project=project)
        recalled = view.recall(prompt, project=project).items
        [shown] = view.recall(prompt, project=project, proactive=True).items
        assert shown.id == recalled[0].id == newer


def test_newer_memory_near_an_older_one_is_shown_with_it_in_the_order_of_recall(
    brain: Brain, clock: FakeClock
) -> None:
    view = brain.acting_as(session="s1")
    older = stored(view, "Sprint 3 ended with two open bugs in the form", kind="fact")
    clock.move(timedelta(days=7))
    newer = stored(view, "Sprint 4 ended with two open bugs in the form", kind="fact")
    for number, first in ((3, older), (4, newer)):
        prompt = f"how did sprint {number} end, with which open bugs in the form?"
        recalled = view.recall(prompt).items
        shown = view.acting_as(session=f"s{number}").recall(prompt, proactive=True).items
        assert [one.id for one in shown] == [one.id for one in recalled]
        assert shown[0].id == first
        # Where the newer one answers, the older one is left out, or names it.
        notes = [note for one in shown for note in one.notes if note.startswith(NEWER)]
        assert notes == [f"{NEWER}{newer}"] * (len(shown) - 1)
        assert newer in {one.id for one in shown}
