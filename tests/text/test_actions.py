"""Laws of grouping: the same subject and action are one group, two actions never are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.causality.actions import action_key, action_label, reports_change
from commonbrain.causality.result import PrecursorsResult, precursors

SUBJECTS = ("config push", "checkout", "mail queue", "nightly import", "payments-db")
ACTIONS = (
    "restarted deployed rolled-back paused drained scaled-up scaled-down enabled disabled migrated"
).split()
VARIABLES = st.one_of(
    st.integers(0, 10**9).map(str),
    st.integers(1, 10**6).map("#{}".format),
    st.dates().map(str),
    st.times().map("{:%H:%M}".format),
    st.tuples(st.integers(0, 99), st.integers(0, 99)).map(lambda two: f"v{two[0]}.{two[1]}"),
    st.uuids().map(str),
    st.sampled_from(["Friday", "12 March", "today", "3pm", "95%", "40ms", "1a2b3c4d", "2nd"]),
)


def test_reports_of_same_subject_and_action_share_a_group(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, ...]] = [
        ("Config push number 1", "Config push number 22", "Config push #8", "config push"),
        ("Config push 8 by Ann Lee", "Config push 9 by Bo", "Config push"),
        ("Deployed v1.2 of checkout", "Deploy of checkout v1.3-rc1", "Checkout deployed at 10:30"),
        ("Restarted db1 on Friday", "Restarted db2 on 2026-03-01"),
        ("Reverted commit 1a2b3c4d", "Reverted commit 9f8e7d6c because it broke checkout"),
        ("Scaled web from 3 to 5 pods", "Scaled web from 2 to 12 pods"),
        ("Fixed OPS-311", "Fixed OPS-312"),
    ]
    for group in cases:
        with subtests.test(group=group):
            assert len({action_key(text) for text in group}) == 1


def test_reports_of_another_subject_or_action_are_in_another_group(
    subtests: pytest.Subtests,
) -> None:
    for one, other in [
        ("Turned the cache on", "Turned the cache off"),
        ("The backup ran", "The backup did not run"),
        ("Moved checkout from Redis to Kafka", "Moved checkout from Kafka to Redis"),
        ("Deployed checkout to staging", "Deployed checkout to production"),
        ("Restarted web-1", "Restarted db-1"),
        ("Fixed OPS-311", "Fixed PAY-311"),
        ("Edited config.toml", "Edited main.py"),
        ("12", "13"),
    ]:
        with subtests.test(one=one, other=other):
            assert action_key(one) != action_key(other)


@pytest.mark.requirement("CT-10")
def test_report_of_a_change_is_recognized(subtests: pytest.Subtests) -> None:
    for text in [
        "search-api was redeployed",
        "tariff.py was refactored by Ann",
        "The index of ledger_archive was rebuilt",
        "crawler-pod-7 was evicted",
        "Ann bumped search-api to v2",
        "node9 was hotfixed",
        "The heap of node9 was tuned",
        "The consumer of ledger_archive is paused",
        "Ann toggled FEATURE_DARK_MODE",
        "db7 froze",
        "db7 went read-only",
        "ledger_archive was cleaned up",
        "search-db hit its quota",
        "search-db reached the hard ceiling",
        "The audit log of db7 was re-enabled",
        "The table ledger_archive was re-indexed",
        "node9 was cordoned",
        "db7 became unreachable",
    ]:
        with subtests.test(text=text):
            assert reports_change(text)


@pytest.mark.requirement("CT-11")
def test_description_does_not_count_as_a_report_of_a_change(subtests: pytest.Subtests) -> None:
    for text in [
        "Ann wrote a guide to search-db",
        "The report of node9 is in the wiki",
        "The quota of search-db is 5 GB",
        "A customer hit the page of search-api",
        "The browser returned to search-api",
        "search-db has three replicas",
        "The team reviewed search-api",
        "node9 is monitored by Grafana",
        "The research on node9 was published",
    ]:
        with subtests.test(text=text):
            assert not reports_change(text)


@given(st.sampled_from(SUBJECTS), st.sampled_from(ACTIONS), VARIABLES, VARIABLES)
def test_numbers_dates_and_ids_do_not_change_the_action_key(
    subject: str, action: str, one: str, other: str
) -> None:
    bare = action_key(f"{subject} {action}")
    assert action_key(f"{subject} {one} {action}") == bare
    assert action_key(f"{subject} {action} at {one} ({other})") == bare
    label = action_label(f"{subject} {one} {action}")
    assert action_key(label) == bare
    assert not any(map(str.isdigit, label))


@given(st.data())
def test_different_actions_have_different_keys(data: st.DataObject) -> None:
    subject = data.draw(st.sampled_from(SUBJECTS))
    texts = [f"{subject} {data.draw(VARIABLES)} {action}" for action in ACTIONS]
    assert len({action_key(text) for text in texts}) == len(ACTIONS)


@given(st.text(max_size=600))
def test_every_text_has_an_action_key(text: str) -> None:
    assert action_key(text) == action_key(text.strip())
    assert len(action_key(text)) >= 1


@given(
    st.lists(
        st.lists(
            st.builds(
                PrecursorsResult,
                subject=st.builds(
                    "{} {} {}".format,
                    st.sampled_from(SUBJECTS),
                    VARIABLES,
                    st.sampled_from(ACTIONS),
                ),
                minutes=st.integers(1, 240).map(float),
                is_candidate=st.booleans(),
            ),
            max_size=6,
        ),
        min_size=1,
        max_size=5,
    ),
    st.randoms(use_true_random=False),
)
def test_order_of_reports_does_not_change_precursors(
    windows: list[list[PrecursorsResult]],
    random_source: object,
) -> None:
    shuffled = [list(window) for window in windows]
    random_source.shuffle(shuffled)  # type: ignore[attr-defined]
    for window in shuffled:
        random_source.shuffle(window)  # type: ignore[attr-defined]
    assert [*precursors(shuffled).items()] == [*precursors(windows).items()]
    assert all(one.count <= len(windows) for one in precursors(windows).values())
