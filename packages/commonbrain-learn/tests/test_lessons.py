"""What a recall teaches, and how lessons are parted so that nothing is judged by what it taught."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import pytest
from commonbrain_learn.outcomes import BY_WEIGHTS, TrainingExample, splits, training_example_of
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.query import FeedbackMark, RankedCandidate, RecallLogEntry, ShownExtent
from commonbrain.testing.builders import NOON

ANY: Final = ShownExtent.HEADLINE


def an_entry(
    shown: Mapping[int, ShownExtent | None],
    marks: Mapping[int, set[FeedbackMark]],
    *,
    session: str | None = "s1",
) -> RecallLogEntry:
    """Make a recall that considered these, and 9 that it did not pack."""
    return RecallLogEntry(
        id=1,
        asked_at=NOON,
        agent="bo",
        session=session,
        query="Where is the kettle?",
        status="found",
        ranker=None,
        considered=tuple(
            RankedCandidate(
                memory_id=id_,
                score=0.5,
                features={"fused": id_ / 10, BY_WEIGHTS: 0.5},
                left_out=None if id_ in shown else "no_room",
                shown=shown.get(id_),
            )
            for id_ in (*shown, 9)
        ),
        packed=tuple(shown),
        degraded=(),
        stages_ms={},
        marks={id_: frozenset(of) for id_, of in marks.items()},
    )


def grades(entry: RecallLogEntry) -> dict[int, int]:
    lesson = training_example_of(entry)
    return {one.memory_id: one.grade for one in lesson.shown} if lesson else {}


def test_only_shown_memories_are_graded_by_their_marks() -> None:
    entry = an_entry(
        dict.fromkeys((1, 2, 3, 4), ANY),
        {
            1: {FeedbackMark.USED},
            2: {FeedbackMark.USEFUL, FeedbackMark.USED},
            3: {FeedbackMark.USEFUL, FeedbackMark.WRONG},
        },
    )
    assert grades(entry) == {1: 2, 2: 3, 3: 0, 4: 1}


def test_features_given_by_a_model_are_left_out_of_training() -> None:
    lesson = training_example_of(an_entry({1: ANY, 2: ANY}, {1: {FeedbackMark.USED}}))
    assert lesson is not None
    assert [one.features for one in lesson.shown] == [{"fused": 0.1}, {"fused": 0.2}]


def test_recall_with_equally_graded_memories_is_no_training_data() -> None:
    assert training_example_of(an_entry({1: ANY, 2: ANY}, {})) is None
    assert training_example_of(an_entry({1: ANY}, {1: {FeedbackMark.USED}})) is None
    assert training_example_of(an_entry({1: ANY, 2: ANY}, {9: {FeedbackMark.USED}})) is None


def test_memory_shown_as_bare_id_is_not_graded() -> None:
    extents = {1: ANY, 2: ANY, 3: ShownExtent.BARE, 4: ShownExtent.BARE}
    assert grades(an_entry(extents, {1: {FeedbackMark.USEFUL}, 4: {FeedbackMark.USED}})) == {
        1: 3,
        2: 1,
        4: 2,
    }


def test_fetch_of_a_shortened_memory_grades_no_memory_shown_whole(
    subtests: pytest.Subtests,
) -> None:
    cases: list[tuple[Mapping[int, set[FeedbackMark]], Mapping[int, int]]] = [
        ({2: {FeedbackMark.USED}}, {2: 2, 3: 1}),
        ({2: {FeedbackMark.USEFUL}}, {1: 1, 2: 3, 3: 1}),
        ({1: {FeedbackMark.USED}}, {1: 2, 2: 1, 3: 1}),
    ]
    for marks, expected in cases:
        with subtests.test(marks=marks, expected=expected):
            extents = {1: ShownExtent.WHOLE, 2: ShownExtent.HEADLINE, 3: ShownExtent.EXCERPT}
            assert grades(an_entry(extents, marks)) == expected


def test_lessons_without_a_session_are_grouped_by_agent_and_day() -> None:
    lesson = training_example_of(an_entry({1: ANY, 2: ANY}, {1: {FeedbackMark.USED}}, session=None))
    assert lesson is not None
    assert lesson.group == "bo 2026-03-02"


@given(st.lists(st.integers(0, 12), min_size=1, max_size=60))
def test_lessons_are_split_by_session_and_time(groups: list[int]) -> None:
    lessons = [
        TrainingExample(
            trace_id=n, asked_at=NOON + n * timedelta(minutes=1), group=f"s{group}", shown=()
        )
        for n, group in enumerate(groups)
    ]
    parts = splits(lessons)
    for part in parts:
        held, learnt = ({one.group for one in of} for of in (part.held, part.learnt))
        assert not held & learnt
        assert all(one.asked_at < part.since for one in part.learnt)
        assert all(one.asked_at >= part.since for one in part.held)
    trace_ids = [one.trace_id for part in parts for one in part.held]
    assert trace_ids == [one.trace_id for one in lessons if one.asked_at >= parts[0].since]


def test_no_lessons_give_no_training_split() -> None:
    assert splits([]) == ()
