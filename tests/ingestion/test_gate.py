from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.ingestion.validation import Rejection, Valid, validate
from commonbrain.model.kinds import FactDetail, Kind, RuleDetail, Severity, TaskDetail
from commonbrain.model.limits import HEADLINE_CHARS_MAX, HEADLINE_WORDS_MAX
from commonbrain.model.memory import Draft
from commonbrain.text.headlines import derive_headline

ATOMIC = (Kind.RULE, Kind.FACT, Kind.TASK)
OTHERS = tuple(kind for kind in Kind if kind not in ATOMIC)
FACT = Draft(body="The build runs on two cores.", kind="fact")


def admitted(draft: Draft) -> Valid:
    answer = validate(draft)
    assert isinstance(answer, Valid)
    return answer


def rejected(draft: Draft) -> Rejection:
    answer = validate(draft)
    assert isinstance(answer, Rejection)
    return answer


@pytest.mark.requirement("WP-02")
def test_unknown_kind_is_refused_with_the_known_kinds(subtests: pytest.Subtests) -> None:
    for kind in [None, "", "gossip", "facts"]:
        with subtests.test(kind=kind):
            refusal = rejected(replace(FACT, kind=kind))
            assert refusal.code == "gate_kind"
            assert all(name in refusal.reason for name in Kind)


@pytest.mark.requirement("WP-02")
def test_every_kind_passes_the_gate_by_its_name(subtests: pytest.Subtests) -> None:
    for kind in Kind:
        with subtests.test(kind=kind):
            assert admitted(replace(FACT, kind=kind)).kind is kind


def test_alias_becomes_the_label_unless_one_is_given() -> None:
    assert admitted(replace(FACT, kind="decision")).label == "decision"
    assert admitted(replace(FACT, kind="decision", label="storage")).label == "storage"


def test_columns_of_another_kind_are_refused_with_the_valid_ones_named() -> None:
    refusal = rejected(replace(FACT, detail=TaskDetail()))
    assert refusal.code == "gate_kind"
    assert "subject" in refusal.hint


def test_columns_of_the_same_kind_are_accepted() -> None:
    assert admitted(replace(FACT, detail=FactDetail(subject="build"))).detail == FactDetail(
        subject="build"
    )


@pytest.mark.requirement("WP-03")
def test_rule_accepts_a_severity_in_any_case(subtests: pytest.Subtests) -> None:
    for given_ in ["BLOCKER", "blocker", " Pattern "]:
        with subtests.test(given_=given_):
            detail = admitted(replace(FACT, kind="rule", severity=given_)).detail
            assert detail == RuleDetail(severity=Severity(given_.strip().upper()))


@pytest.mark.requirement("WP-03")
def test_rule_without_a_severity_is_a_pattern() -> None:
    assert admitted(replace(FACT, kind="rule")).detail == RuleDetail(severity=Severity.PATTERN)


@pytest.mark.requirement("WP-03")
def test_rule_with_an_unknown_severity_is_refused(subtests: pytest.Subtests) -> None:
    for severity in ["", "DEPRECATED", "high"]:
        with subtests.test(severity=severity):
            assert rejected(replace(FACT, kind="rule", severity=severity)).code == "gate_severity"


@pytest.mark.requirement("WP-03")
def test_only_a_rule_has_a_severity(subtests: pytest.Subtests) -> None:
    for kind in [kind for kind in Kind if kind is not Kind.RULE]:
        with subtests.test(kind=kind):
            refusal = rejected(replace(FACT, kind=kind, severity="BLOCKER"))
            assert refusal.code == "gate_severity"
            assert "kind rule" in refusal.hint


@pytest.mark.requirement("WP-04")
def test_headline_over_its_limit_is_refused(subtests: pytest.Subtests) -> None:
    for headline in [" ".join(["word"] * 16), "x" * 121, "one two " * 30]:
        with subtests.test(headline=headline):
            refusal = rejected(replace(FACT, headline=headline))
            assert refusal.code == "gate_headline"
            assert "15 words" in refusal.hint


@pytest.mark.requirement("WP-04")
def test_headline_at_its_limit_is_accepted() -> None:
    assert admitted(replace(FACT, headline="seven77 " * 14 + "seven77")).warnings == ()


@pytest.mark.requirement("WP-04")
def test_empty_text_has_no_headline_and_is_refused(subtests: pytest.Subtests) -> None:
    for kind in Kind:
        with subtests.test(kind=kind):
            assert rejected(Draft(body="", kind=kind)).code == "gate_headline"


@pytest.mark.requirement("WP-40")
def test_headline_of_a_statement_has_a_letter(subtests: pytest.Subtests) -> None:
    for body in ["🎉🎉", "2026-03-02 14:05", "---", "!!!"]:
        for kind in ATOMIC:
            with subtests.test(kind=kind, body=body):
                assert rejected(Draft(body=body, kind=kind)).code == "gate_headline"


def test_utterance_can_be_a_single_emoji(subtests: pytest.Subtests) -> None:
    for kind in OTHERS:
        with subtests.test(kind=kind):
            assert admitted(Draft(body="🎉", kind=kind)).headline == "🎉"


@pytest.mark.requirement("WP-04")
@given(st.text(min_size=1).filter(str.strip))
def test_derived_headline_is_one_short_line_and_never_empty(body: str) -> None:
    headline = derive_headline(body)
    assert headline
    assert len(headline) <= HEADLINE_CHARS_MAX
    assert len(headline.split()) <= HEADLINE_WORDS_MAX
    assert len(headline.splitlines()) == 1


@given(st.lists(st.text("aé中. \n-", min_size=1, max_size=200), max_size=20).map(" ".join))
def test_derived_headline_passes_the_gate(body: str) -> None:
    answer = validate(Draft(body=body, kind="event"))
    assert isinstance(answer, Valid) == bool(body.strip())


@pytest.mark.requirement("WP-40")
def test_derived_headline_has_no_list_marker(subtests: pytest.Subtests) -> None:
    for marker in ["- ", "* ", "1. ", "## ", "[x] ", "> - [ ] "]:
        with subtests.test(marker=marker):
            assert derive_headline(f"{marker}Use uv. It is fast.") == "Use uv. It is fast."


def test_truncated_headline_ends_with_an_ellipsis() -> None:
    assert derive_headline("word " * 16) == "word " * 14 + "word…"


@pytest.mark.requirement("WP-05", "WP-09")
def test_statement_has_at_most_400_words(subtests: pytest.Subtests) -> None:
    for kind in ATOMIC:
        with subtests.test(kind=kind):
            assert isinstance(validate(Draft(body="word " * 400, kind=kind)), Valid)
            refusal = rejected(Draft(body="word " * 401, kind=kind))
            assert (refusal.code, "401 words" in refusal.reason) == ("gate_atomicity", True)


def test_statement_above_200_words_gets_a_warning(subtests: pytest.Subtests) -> None:
    for kind in ATOMIC:
        with subtests.test(kind=kind):
            assert admitted(Draft(body="word " * 200, kind=kind)).warnings == ()
            assert "201 words" in admitted(Draft(body="word " * 201, kind=kind)).warnings[0]


@pytest.mark.requirement("WP-05", "WP-09")
def test_text_with_several_dated_updates_is_refused_as_a_merge(subtests: pytest.Subtests) -> None:
    for kind in ATOMIC:
        with subtests.test(kind=kind):
            body = "Deploys run at noon.\nUpdate (2026-01-02): at one.\nUPDATED 2026-02-03: at two."
            refusal = rejected(Draft(body=body, kind=kind))
            assert refusal.code == "gate_atomicity"
            assert "supersede" in refusal.hint


def test_message_and_event_may_have_any_content(subtests: pytest.Subtests) -> None:
    for kind in OTHERS:
        with subtests.test(kind=kind):
            body = "word " * 500 + "Update 2026-01-02: a. Update 2026-02-03: b."
            assert admitted(Draft(body=body, kind=kind)).warnings == ()


@pytest.mark.requirement("DM-71")
def test_no_body_is_longer_than_16_kib_of_utf_8(subtests: pytest.Subtests) -> None:
    for kind in OTHERS:
        with subtests.test(kind=kind):
            assert admitted(Draft(body="é" * 8192, kind=kind))
            assert rejected(Draft(body="é" * 8193, kind=kind)).code == "gate_atomicity"


@given(
    st.builds(
        Draft,
        body=st.text(),
        kind=st.none() | st.sampled_from([*Kind, "todo", "gossip"]),
        headline=st.none() | st.text(),
        severity=st.none() | st.text(max_size=8) | st.sampled_from(Severity),
    )
)
def test_refusal_names_its_step_and_a_hint(draft: Draft) -> None:
    answer = validate(draft)
    if isinstance(answer, Rejection):
        assert answer.code in {"gate_kind", "gate_severity", "gate_headline", "gate_atomicity"}
        assert answer.reason
        assert answer.hint
    else:
        assert answer.body == draft.body
