"""A rule restated in other words: it is refused with the call that would replace the old one."""

import pytest

from commonbrain.client import Brain
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model.memory import State
from tests.asking import bodies, remember_one, stored

RULE = "Never push to the main branch without a review"
RESTATED = "Never push to the main branch without any review"
NEWER = "Never push to the main branch without two reviews"


@pytest.mark.requirement("WP-06")
def test_rule_restated_in_other_words_is_refused_unless_declared_distinct(brain: Brain) -> None:
    # Ann settles a rule. Bob, who did not ask first, says the same in other words.
    rule = stored(brain, RULE, kind="rule", severity="BLOCKER")
    bob = brain.acting_as(agent="bob")
    refused = remember_one(bob, RESTATED, kind="rule")
    assert (refused.status, refused.id) == (ItemStatus.DUPLICATE, rule)
    assert f"revise supersede {rule}" in (refused.hint or "")

    # There is still one rule, in Ann's words.
    assert bodies(brain, "push main") == [RULE]

    # The team makes it stricter: Bob follows the hint, and the new rule alone is recalled.
    newer = bob.revise.supersede(rule, NEWER, reason="one was not enough", severity="BLOCKER")
    assert newer.status is ItemStatus.STORED
    assert bodies(brain, "push main") == [NEWER]
    assert brain.get(rule).state is State.SUPERSEDED

    # What differs in a number is never taken for a repetition; who insists is heard, too.
    assert remember_one(bob, NEWER.replace("two", "three"), kind="rule").status is ItemStatus.STORED
    insists = remember_one(bob, RESTATED, kind="rule", distinct_because="the docs repository")
    assert insists.status is ItemStatus.STORED
