"""StateBench's timelines are lived through, and judged by what stands first."""

from dataclasses import replace
from pathlib import Path

import pytest
from commonbrain_evals.retrieval import statebench
from commonbrain_evals.retrieval.ablation import GROUPS, PARTS
from commonbrain_evals.retrieval.runs import EvalRequest
from commonbrain_evals.retrieval.statebench_data import StateNote, note_text, read_timelines
from commonbrain_evals.retrieval.statebench_verdicts import (
    AnswerPhrases,
    Says,
    ShownItem,
    judge,
    says,
)

from commonbrain.config import Settings
from commonbrain.model.errors import InvalidInputError
from tests import eval_samples as samples

PRICE = AnswerPhrases(must=("$45",), must_not=("$40", "40 dollars"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples.statebench(tmp_path_factory.mktemp("data") / "s.jsonl")


@pytest.fixture(scope="module")
def request_(source: Path) -> EvalRequest:
    return EvalRequest(dataset="statebench", path=source)


@pytest.fixture(scope="module")
def report(request_: EvalRequest) -> statebench.StateReport:
    return statebench.evaluate(request_, settings=Settings())


def test_every_question_has_a_row_and_tracks_without_an_answer_are_named(
    report: statebench.StateReport,
) -> None:
    assert [row.track for row in report.rows] == ["supersession", "scope_permission"]
    assert "causality" in report.left_out
    assert set(report.rows[0].systems) == {"recall", "full text", "vectors"}
    assert len(report.sha256) == 64
    assert {figure.metric for figure in report.figures if figure.track == "supersession"} == {
        *("mentioned", "current_first", "stale_above", "stale_or_both_above")
    }


def test_current_value_ranks_before_the_stale_value(report: statebench.StateReport) -> None:
    outcome = report.rows[0].systems["recall"]
    assert outcome.current_first
    assert not outcome.stale_above
    assert outcome.leaked is None


def test_restricted_fact_is_not_shown(report: statebench.StateReport) -> None:
    outcome = report.rows[1].systems["recall"]
    assert outcome.mentioned
    assert outcome.leaked is False


def test_parts_left_out_of_recall_are_recorded_in_the_results(request_: EvalRequest) -> None:
    without = ("claims", "repetition")
    results = statebench.evaluate(
        replace(request_, without=without, conversations=1), settings=Settings()
    )
    assert results.without == without
    assert results.timelines == 1


def test_ablation_leaves_each_part_out_once(
    request_: EvalRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    results = statebench.evaluate(replace(request_, ablates=True), settings=Settings())
    assert {f"without {part}" for part in ("claims", "changes", "passages", "time")} <= set(
        results.rows[0].systems
    )
    differences = statebench.differences_of_report(results)
    assert {part for part, _ in differences} == {*PARTS, *GROUPS}
    statebench.show_states(results)
    assert "What is left out" in capsys.readouterr().out


def test_unknown_parts_and_samples_of_questions_are_refused(request_: EvalRequest) -> None:
    with pytest.raises(InvalidInputError, match="no part 'nothing'"):
        statebench.evaluate(replace(request_, without=("nothing",)), settings=Settings())
    with pytest.raises(InvalidInputError, match="belong together"):
        statebench.evaluate(replace(request_, questions=1), settings=Settings())


def test_timelines_are_read_in_chronological_order_with_their_writers(source: Path) -> None:
    first, second, _ = read_timelines(source)
    notes = [event for event in first.events if isinstance(event, StateNote)]
    assert [note.writer for note in notes] == ["Ada", "assistant", "Ada"]
    assert [event.at for event in first.events] == sorted(event.at for event in first.events)
    restricted = [
        event for event in second.events if isinstance(event, StateNote) and event.restricted_to
    ]
    assert [(one.writer, one.text) for one in restricted] == [
        ("HR", "The bonus of the harbour team is 12%")
    ]


def test_state_is_written_as_a_plain_note(subtests: pytest.Subtests) -> None:
    for key, value, text in [
        ("launch_date_v2", "Monday", "launch date: Monday"),
        ("fact_3", "Monday", "Monday"),
        ("ferry_time", "The ferry leaves at nine", "The ferry leaves at nine"),
    ]:
        with subtests.test(key=key, value=value, text=text):
            assert note_text(key, value) == text


def test_text_that_retracts_a_value_is_not_stale(subtests: pytest.Subtests) -> None:
    for text, expected in [
        ("The price is $45 each.", Says.CURRENT),
        ("The price is $40 each.", Says.STALE),
        ("The price is not $40.", Says.NEITHER),
        ("The price is $45, no longer $40.", Says.CURRENT),
        ("Actually make it $45; $40 is too little.", Says.CURRENT),
        ("Quotes: $40 from one, $45 from another.", Says.BOTH),
        ("It is not here yet. The price is $40.", Says.STALE),
        ("The budget is $45,000.", Says.NEITHER),
    ]:
        with subtests.test(text=text, expected=expected):
            assert PRICE.read(text) is expected


def test_phrases_are_compared_as_whole_words() -> None:
    assert says("Due March 18th", "march 18")
    assert not says("The pipeline is fine", "PIP")
    assert says("We wait", "stop|wait")


def test_stale_item_counts_only_if_it_is_not_marked() -> None:
    current, stale = ShownItem(text="It is $45."), ShownItem(text="It is $40.")
    marked = ShownItem(text="It is $40.", is_marked=True)
    assert judge(PRICE, [marked, current], is_ranked=True, leak=None).current_first
    outcome = judge(PRICE, [stale, current], is_ranked=True, leak=None)
    assert (outcome.current_first, outcome.stale_above) == (False, True)
    assert outcome.first_stale == "It is $40."
    nothing = judge(PRICE, [], is_ranked=True, leak=None)
    assert (nothing.current_first, nothing.stale_above) == (False, False)


def test_restricted_item_and_forbidden_value_count_as_leaks() -> None:
    restricted = ShownItem(text="Anything", is_restricted=True)
    assert judge(PRICE, [restricted], is_ranked=False, leak=Says.NEITHER).leaked
    assert not judge(PRICE, [ShownItem(text="$40")], is_ranked=False, leak=Says.NEITHER).leaked
    assert judge(PRICE, [ShownItem(text="$40")], is_ranked=False, leak=Says.STALE).leaked
