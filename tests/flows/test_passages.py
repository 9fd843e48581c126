"""What was said around a message helps to find it, as far as the caller may see it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from commonbrain.client import Brain
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.model.scope import Scope
from commonbrain.retrieval.fusion import fuse
from commonbrain.retrieval.query_plan import RetrievalOverrides
from commonbrain.retrieval.service import Recall

BEGAN = datetime(2026, 3, 1, 9, tzinfo=UTC)
QUESTION = "Which harbour does the ferry to Gotland leave from?"
TALK = (
    ("mia", "Good morning, the kettle is on in the kitchen."),
    ("mia", "Which harbour does the ferry to Gotland leave from?"),
    ("olof", "Nynäshamn, at eleven, so we should take the early train."),
    ("mia", "Then I will pack tonight and set two alarms."),
)
ASKED = TALK[1][1]
ANSWER = TALK[2][1]


def say(
    brain: Brain, talk: Sequence[tuple[str, str]] = TALK, *, thread: str = "trip", **more: object
) -> None:
    """Store what was said in a thread, a minute apart."""
    brain.remember(
        [
            Draft(
                kind=Kind.MESSAGE,
                body=body,
                thread=ThreadRef(key=thread, subject=thread),
                occurred_at=BEGAN + timedelta(minutes=number),
                detail=MessageDetail(sender=who, **more),  # type: ignore[arg-type]
            )
            for number, (who, body) in enumerate(talk)
        ]
    )


def found(brain: Brain, query: str = QUESTION, *without: str, **options: object) -> list[str]:
    """Give the bodies that a recall brings, best first."""
    recall = Recall(
        brain.services, brain.caller, RetrievalOverrides(without=frozenset({*without, "verdict"}))
    )
    return [item.body or "" for item in recall(query, **options).items]  # type: ignore[arg-type]


def test_an_answer_comes_with_what_was_asked_before_it(brain: Brain) -> None:
    say(brain)

    assert ANSWER in found(brain)
    assert ANSWER not in found(brain, QUESTION, "passages")


def test_what_was_found_for_its_passage_says_so(brain: Brain) -> None:
    say(brain)
    why = {item.body: item.why for item in brain.recall(QUESTION).items}

    assert why[ANSWER] == ("passage",)
    assert "passage" not in why[ASKED]


def test_who_asks_comes_behind_who_tells(brain: Brain) -> None:
    say(brain, [("mia", "Does the ferry leave from Visby?"), ("olof", "The ferry leaves Visby.")])

    assert found(brain, "ferry leave Visby") == [
        "The ferry leaves Visby.",
        "Does the ferry leave from Visby?",
    ]


def test_what_was_said_in_private_brings_no_neighbour_and_is_none(brain: Brain) -> None:
    private = [("mia", ASKED), ("olof", ANSWER)]
    brain.remember(
        [
            Draft(
                kind=Kind.MESSAGE,
                body=body,
                scope=Scope.PRIVATE,
                thread=ThreadRef(key="secret", subject="secret"),
                detail=MessageDetail(sender=who, recipients=("olof",)),
            )
            for who, body in private
        ]
    )
    say(brain, [("mia", "The kettle is broken.")], thread="secret")
    stranger = brain.acting_as(agent="cy")

    assert found(stranger) == []
    assert found(brain)[:1] == [ASKED]


def test_what_a_filter_leaves_out_is_no_neighbour(brain: Brain) -> None:
    say(brain)
    later = BEGAN + timedelta(minutes=2)

    assert ANSWER in found(brain)
    assert found(brain, since=later) == []
    assert ASKED not in found(brain, since=later)


def test_nobody_who_did_not_ask_is_told_what_was_said_beside(brain: Brain) -> None:
    say(brain)

    assert ANSWER not in found(brain, proactive=True)


def of_assistant(brain: Brain, query: str, *without: str) -> float:
    """Give the score of what the assistant said."""
    recall = Recall(brain.services, brain.caller, RetrievalOverrides(without=frozenset(without)))
    [score] = [item.score for item in recall(query).items if item.agent == "assistant"]
    return score


def test_what_an_assistant_said_counts_less_unless_it_is_asked_for(brain: Brain) -> None:
    say(brain, [("user", "Move my ferry booking."), ("assistant", "The ferry booking is moved.")])

    for query in ("Is the ferry booking moved?", "When did I move the ferry booking?"):
        assert of_assistant(brain, query) < of_assistant(brain, query, "assistant")
    for query in ("Where did you say the ferry booking is?", "Show your note on the ferry."):
        assert of_assistant(brain, query) == of_assistant(brain, query, "assistant")


def test_one_sure_arm_beats_two_half_sure() -> None:
    fused = fuse({"lexical": {1: 10.0, 2: 5.0, 3: 0.1}, "vector": {1: 0.1, 2: 0.5, 3: 0.9}}).fused

    assert fused[1] > fused[2]
    assert fused[3] > fused[2]


def test_what_has_no_thread_stands_for_itself() -> None:
    scores = {1: 10.0, 2: 8.0, 3: 1.0, 4: 5.0}
    fused = fuse({"lexical": scores, "vector": {}}, sources={2: 7, 3: 7, 5: 8})

    assert fused.thread == {1: 1.0, 2: 1.0, 3: 1.0, 4: 0.5, 5: 0.0}
    assert fused.self_scores[5] == 0.0
    features = fused.features_of([1])[1]
    assert features["context_score"] == features["self_score"]


def test_the_best_of_passages_that_miss_is_no_better_than_they_are() -> None:
    found = {"lexical": {1: 10.0, 2: 1.0}, "vector": {1: 0.9, 2: 0.1, 3: 0.2}}
    fused = fuse(found, passage_scores={"lexical": {2: 0.5, 3: 0.5}, "vector": {2: 0.15, 3: 0.15}})

    assert fused.fused[1] > 2 * fused.fused[2]
    assert fused.context_scores[2] < 0.2


def test_an_arm_that_found_nothing_takes_nothing_from_the_rest() -> None:
    passage_scores = {"lexical": {1: 10.0, 2: 5.0}, "vector": {}}
    fused = fuse({"lexical": {1: 10.0, 2: 5.0}, "vector": {}}, passage_scores=passage_scores)

    assert fused.self_scores[1] == fused.context_scores[1] == 1.0
