"""A month of ten agents on one store that is kept every night."""

from itertools import pairwise

import pytest
from commonbrain_evals.month import DAYS, HABITS, evaluate


@pytest.mark.requirement("LC-01", "LC-17", "LC-20", "JB-09")
def test_a_month_of_ten_agents_goes_by_the_formulas_and_revives_nothing() -> None:
    told = evaluate(acts=1)

    assert told.mismatches == ()
    assert (told.days, told.agents, sum(told.acts.values())) == (DAYS, len(HABITS), DAYS * 10)
    # Each thing that the month is about has come to pass.
    assert (
        min(
            told.dormant,
            told.reactivated,
            told.maintenance_counts["expired"],
            told.maintenance_counts["events"],
        )
        > 0
    )
    assert {"superseded", "forgotten", "expired", "active"} <= set(told.memories)
    # It grows as what is told does, and no faster: the file holds what it held, and what came new.
    sizes = (0, *told.bytes_by_ten_days)
    assert max(after - before for before, after in pairwise(sizes)) <= 2 * sizes[1]
