"""A correction was itself corrected; taking back what lies in the middle is refused."""

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import RejectedError
from commonbrain.model.memory import State
from tests.asking import bodies, stored

TWO, FOUR, EIGHT = (f"The nightly build runs on {n} cores" for n in ("two", "four", "eight"))


@pytest.mark.requirement("LC-19")
def test_chain_of_corrections_can_only_be_undone_from_its_head(brain: Brain) -> None:
    first = stored(brain, TWO, kind="fact")
    second = brain.revise.supersede(first, FOUR, reason="upgrade").id or ""
    third = brain.revise.supersede(second, EIGHT, reason="another upgrade").id or ""

    # Nobody can correct what no longer holds, and is told what does.
    with pytest.raises(RejectedError, match=third) as refusal:
        brain.revise.supersede(first, "The nightly build is gone", reason="late")
    # Nor can the first be brought back over the heads of the others.
    with pytest.raises(RejectedError, match=third) as middle:
        brain.revise.restore(first, reason="back to the beginning")
    assert (refusal.value.code, middle.value.code) == ("already_superseded", "mid_chain")
    assert bodies(brain, "nightly build") == [EIGHT]

    # From the end it goes step by step.
    brain.revise.restore(second, reason="eight was a dream")
    assert bodies(brain, "nightly build") == [FOUR]
    brain.revise.restore(first, reason="so was four")
    assert bodies(brain, "nightly build") == [TWO]
    assert [brain.get(id_).state for id_ in (second, third)] == [State.FORGOTTEN] * 2
    assert brain.doctor().is_sound
