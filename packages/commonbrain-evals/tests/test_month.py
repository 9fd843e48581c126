"""A month of ten agents on one store that is kept every night."""

from itertools import pairwise

import pytest
from commonbrain_evals.month import DAYS, HABITS, evaluate


@pytest.mark.requirement("LC-01", "LC-17", "LC-20", "JB-09")
def test_simulated_month_matches_the_formulas_and_grows_at_an_even_rate() -> None:
    report = evaluate(acts=1)

    assert report.mismatches == ()
    assert (report.days, report.agents, sum(report.acts.values())) == (DAYS, len(HABITS), DAYS * 10)
    # Each thing that the month is about has come to pass.
    assert (
        min(
            report.dormant,
            report.reactivated,
            report.maintenance_counts["expired"],
            report.maintenance_counts["events"],
        )
        > 0
    )
    assert {"superseded", "forgotten", "expired", "active"} <= set(report.memories)
    # It grows as what is told does, and no faster: the file holds what it held, and what came new.
    sizes = (0, *report.bytes_by_ten_days)
    assert max(after - before for before, after in pairwise(sizes)) <= 2 * sizes[1]
