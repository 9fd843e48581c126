from datetime import timedelta
from typing import Any

import pytest

from commonbrain.model.kinds import (
    ALIASES,
    KINDS,
    DuplicatePolicy,
    Kind,
    kind_and_label,
    kinds_at_boot,
)
from commonbrain.model.limits import BOOT_CAPS
from commonbrain.testing.builders import a_memory


def test_every_kind_has_one_policy_and_its_own_detail_columns() -> None:
    assert set(KINDS) == set(Kind)
    assert all(policy.kind is kind for kind, policy in KINDS.items())
    assert len({policy.detail for policy in KINDS.values()}) == len(Kind)


def test_searchable_columns_of_a_kind_are_among_the_keywords(subtests: pytest.Subtests) -> None:
    for kind, column in [(row, name) for row in Kind for name in KINDS[row].searchable]:
        with subtests.test(kind=kind, column=column):
            column_value: dict[str, Any] = {column: "quokka"}
            memory = a_memory(1, "It naps.", kind=kind, detail=KINDS[kind].detail(**column_value))

            assert "quokka" in memory.keywords


def test_rule_never_fades_and_is_never_archived_or_pruned() -> None:
    rule = KINDS[Kind.RULE]
    assert (rule.half_life, rule.archived_after, rule.is_pruned) == (None, None, False)


def test_facts_halve_in_a_week_events_in_two_days_and_atoms_in_a_month() -> None:
    fading = {kind: policy.half_life for kind, policy in KINDS.items() if policy.half_life}
    assert fading == {
        Kind.FACT: timedelta(days=7),
        Kind.EVENT: timedelta(hours=48),
        Kind.ATOM: timedelta(days=30),
    }


def test_unread_incidents_and_episodes_are_archived_after_ninety_days() -> None:
    archived = {k: policy.archived_after for k, policy in KINDS.items() if policy.archived_after}
    assert archived == {kind: timedelta(days=90) for kind in (Kind.INCIDENT, Kind.EPISODE)}


@pytest.mark.requirement("DM-01")
def test_every_section_of_a_briefing_lists_the_kinds_it_shows() -> None:
    of_no_kind = {"notes", "siblings", "unconfirmed", "pinned"}
    sections = {section for policy in KINDS.values() for section in policy.boot_sections}

    assert sections == {*BOOT_CAPS, "handoff"} - of_no_kind
    assert kinds_at_boot("action_items") == (Kind.RULE, Kind.TASK)
    assert kinds_at_boot("notes") == ()


def test_only_rules_and_facts_are_refused_as_near_duplicates() -> None:
    refusing = {k for k, policy in KINDS.items() if policy.on_duplicate is DuplicatePolicy.REFUSE}
    assert refusing == {Kind.RULE, Kind.FACT}


def test_kind_is_read_in_any_case_and_leaves_no_label(subtests: pytest.Subtests) -> None:
    for kind in Kind:
        with subtests.test(kind=kind):
            assert kind_and_label(f" {kind.upper()} ") == (kind, None)


def test_type_name_of_another_system_becomes_a_kind_and_a_label(subtests: pytest.Subtests) -> None:
    for alias, kind in [
        ("policy", Kind.RULE),
        ("guardrail", Kind.RULE),
        ("procedural", Kind.RULE),
        ("convention", Kind.RULE),
        ("decision", Kind.FACT),
        ("insight", Kind.FACT),
        ("reference", Kind.FACT),
        ("person", Kind.FACT),
        ("architecture", Kind.FACT),
        ("research", Kind.FACT),
        ("plan", Kind.FACT),
        ("idea", Kind.FACT),
        ("note", Kind.FACT),
        ("observation", Kind.EVENT),
        ("meeting", Kind.EVENT),
        ("journal", Kind.EVENT),
        ("stm", Kind.EVENT),
        ("episodic", Kind.EVENT),
        ("bug", Kind.INCIDENT),
        ("todo", Kind.TASK),
        ("action_item", Kind.TASK),
    ]:
        with subtests.test(alias=alias, kind=kind):
            assert kind_and_label(alias.title()) == (kind, alias)


def test_no_alias_has_the_name_of_a_kind() -> None:
    assert not set(ALIASES) & set(Kind)


def test_unknown_name_has_no_kind() -> None:
    assert kind_and_label("gossip") is None
