"""What was said around a message helps to find it, as far as the caller may see it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from commonbrain.client import Brain
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.model.scope import Scope
from commonbrain.retrieval.plan import RetrievalOverrides
from commonbrain.retrieval.recall import Recall
from commonbrain.retrieval.retrieve import fuse

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


def recalled(brain: Brain, query: str = QUESTION, *without: str, **options: object) -> list[str]:
    """Give the bodies that a recall brings, best first."""
    recall = Recall(
        brain.services, brain.caller, RetrievalOverrides(without=frozenset({*without, "verdict"}))
    )
    return [item.body or "" for item in recall(query, **options).items]  # type: ignore[arg-type]


def test_passage_of_an_answer_includes_its_question(brain: Brain) -> None:
    say(brain)

    assert ANSWER in recalled(brain)
    assert ANSWER not in recalled(brain, QUESTION, "passages")


def test_item_recalled_for_its_passage_names_that_reason(brain: Brain) -> None:
    say(brain)
    why = {item.body: item.why for item in brain.recall(QUESTION).items}

    assert why[ANSWER] == ("passage",)
    assert "passage" not in why[ASKED]


def test_question_ranks_below_statement(brain: Brain) -> None:
    say(brain, [("mia", "Does the ferry leave from Visby?"), ("olof", "The ferry leaves Visby.")])

    assert recalled(brain, "ferry leave Visby") == [
        "The ferry leaves Visby.",
        "Does the ferry leave from Visby?",
    ]


def test_private_message_is_not_recalled_as_context_for_others(brain: Brain) -> None:
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

    assert recalled(stranger) == []
    assert recalled(brain)[:1] == [ASKED]


def test_message_outside_the_filter_is_no_neighbour(brain: Brain) -> None:
    say(brain)
    later = BEGAN + timedelta(minutes=2)

    assert ANSWER in recalled(brain)
    assert recalled(brain, since=later) == []
    assert ASKED not in recalled(brain, since=later)


def test_proactive_recall_shows_no_neighbours(brain: Brain) -> None:
    say(brain)

    assert ANSWER not in recalled(brain, proactive=True)


def of_assistant(brain: Brain, query: str, *without: str) -> float:
    """Give the score of what the assistant said."""
    recall = Recall(brain.services, brain.caller, RetrievalOverrides(without=frozenset(without)))
    [score] = [one.score for one in recall(query, max_items=12).items if one.agent == "assistant"]
    return score


def test_message_of_an_assistant_counts_less_unless_requested(brain: Brain) -> None:
    say(brain, [("user", "Move my ferry booking."), ("assistant", "The ferry booking is moved.")])

    for query in ("Is the ferry booking moved?", "When did I move the ferry booking?"):
        assert of_assistant(brain, query) < of_assistant(brain, query, "assistant")
    for query in ("Where did you say the ferry booking is?", "Show your note on the ferry."):
        assert of_assistant(brain, query) == of_assistant(brain, query, "assistant")


def column(
    name: str,
    matches: Mapping[str, Mapping[int, float]],
    **more: Any,  # noqa: ANN401 of `fuse`
) -> Mapping[int, float]:
    """Give one column of what is fused, by memory."""
    memories, columns = fuse(matches, **more)
    return dict(zip(memories, columns[name].tolist(), strict=True))


def test_one_certain_retriever_beats_two_uncertain_ones() -> None:
    fused = column(
        "fused", {"lexical": {1: 10.0, 2: 5, 3: 0.1}, "vector": {1: 0.1, 2: 0.5, 3: 0.9}}
    )

    assert fused[1] > fused[2]
    assert fused[3] > fused[2]


def test_memory_without_a_thread_is_its_own_passage() -> None:
    scores = {1: 10.0, 2: 8.0, 3: 1.0, 4: 5.0}
    given: Any = {"matches": {"lexical": scores, "vector": {}}, "sources": {2: 7, 3: 7, 5: 8}}

    assert column("thread", **given) == {1: 1.0, 2: 1.0, 3: 1.0, 4: 0.5, 5: 0.0}
    assert column("self_score", **given)[5] == 0.0
    assert column("context_score", **given) == column("self_score", **given)


def test_best_of_irrelevant_passages_gets_no_higher_score() -> None:
    results = {"lexical": {1: 10.0, 2: 1.0}, "vector": {1: 0.9, 2: 0.1, 3: 0.2}}
    passages = {"lexical": {2: 0.5, 3: 0.5}, "vector": {2: 0.15, 3: 0.15}}
    fused = column("fused", results, passages=passages)

    assert fused[1] > 2 * fused[2]
    assert column("context_score", results, passages=passages)[2] < 0.2


def test_retriever_without_results_does_not_lower_scores() -> None:
    scores: Any = {"lexical": {1: 10.0, 2: 5.0}, "vector": {}}

    for name in ("self_score", "context_score"):
        assert column(name, scores, passages=scores)[1] == 1.0


def test_trained_models_learn_that_an_answer_follows_its_question(brain: Brain) -> None:
    say(brain)
    trace = brain.recall(QUESTION).trace_id
    seen = {one.headline: one.features for one in brain.recalls.one(trace).candidates or ()}
    answer, question = seen[ANSWER], seen[ASKED]

    assert answer["follows"] == answer["replies"] > 0
    assert question["leads"] > 0
    assert answer["length"] > 0
