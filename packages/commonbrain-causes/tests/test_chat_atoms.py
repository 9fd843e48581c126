import pytest
from commonbrain_causes.chat import is_grounded, is_inverted

from commonbrain.model.atoms import Atom

TEXT = "The deploy to db of eu-1 was fine, \u6570\u636e\u5e93\u5d29\u6e83\u4e86."
CERTIFICATE = Atom(subject="an expired certificate", outcome="the outage of the shop")


def test_atom_is_grounded_only_in_words_of_its_text(
    subtests: pytest.Subtests,
) -> None:
    for subject, outcome, is_so in [
        ("the deploy", "was fine", True),
        ("the deploys", "were fine", True),
        ("db", "eu-1", True),
        ("db", "\u6570\u636e\u5e93", True),
        ("x", "was fine", False),
        ("the deploy", "\u5220\u5e93 \u8dd1\u8def", False),
        ("the deploy", "--", False),
        ("aliens to db", "was fine", False),
    ]:
        with subtests.test(subject=subject, outcome=outcome, is_so=is_so):
            assert is_grounded(Atom(subject=subject, outcome=outcome), TEXT) is is_so


def test_reversed_cause_and_effect_are_swapped() -> None:
    turned = Atom(subject="the shop", action="had an outage", outcome="certificate expired")
    assert is_inverted(turned, [CERTIFICATE])
    assert not is_inverted(CERTIFICATE, [CERTIFICATE])
    assert not is_inverted(turned, [])
    assert not is_inverted(Atom(subject="a fan", outcome="an outage"), [CERTIFICATE])
