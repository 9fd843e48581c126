"""An agent kept an id in its notes; what it named has changed since, in every way it can."""

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import NotFoundError
from tests.asking import stored

TWO, FOUR, EIGHT = (f"The nightly build runs on {n} cores" for n in ("two", "four", "eight"))


@pytest.mark.requirement("RT-10")
def test_stale_id_names_the_current_memory(brain: Brain) -> None:
    noted = stored(brain, TWO, kind="fact")
    second = brain.revise.supersede(noted, FOUR, reason="upgrade").id or ""
    head = brain.revise.supersede(second, EIGHT, reason="upgrade").id or ""

    memory = brain.get(noted)
    assert memory.body == TWO
    assert memory.banner == f"Superseded: {head} holds now: {EIGHT}"
    assert memory.current_id == head

    # What holds now is forgotten: the old id says so, and shows no word of it.
    brain.forget(head, reason="wrong")
    assert "forgotten since" in (brain.get(noted).banner or "")
    assert "eight" not in f"{brain.get(noted)} {brain.get(head)}"
    assert (brain.get(head).banner or "").startswith("Forgotten")

    # It is erased: the id still answers, and there is nothing left to show.
    brain.erase(head, reason="on request", confirm=1)
    assert (brain.get(head).banner or "").startswith("Erased")
    assert brain.get(head).body is None
    assert "erased since" in (brain.get(noted).banner or "")

    # The last one that held can be brought back, and the old id names it.
    brain.revise.restore(second, reason="it was true")
    assert brain.get(noted).banner == f"Superseded: {second} holds now: {FOUR}"

    with pytest.raises(NotFoundError):
        brain.get("mem_0000000000001")
