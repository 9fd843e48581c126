"""Traces: what led to something, what came of it, and how good the evidence is."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from commonbrain.causality.result import VIA_NAME, TraceResult
from commonbrain.causality.traversal import STEPS_MAX
from commonbrain.client import Brain
from commonbrain.model.errors import NotFoundError, RejectedError
from commonbrain.model.kinds import AtomDetail
from commonbrain.model.memory import Draft
from commonbrain.model.scope import Scope, Trust
from commonbrain.retrieval.provenance import FORGOTTEN
from commonbrain.testing.builders import FakeClock
from tests.asking import stored

START = datetime(2026, 3, 1, 8, tzinfo=UTC)


def atom(
    brain: Brain,
    subject: str,
    outcome: str,
    *,
    at: float = 0,
    delay: float | None = None,
    scope: str = "team",
) -> str:
    detail = AtomDetail(subject=subject, outcome=outcome, outcome_delay_s=delay)
    when = START + timedelta(hours=at)
    text = f"{subject}, and so {outcome}"
    return stored(brain, text, kind="atom", detail=detail, occurred_at=when, scope=scope)


def an_atom(subject: str, outcome: str, *, at: float, scope: Scope = Scope.TEAM) -> Draft:
    return Draft(
        body=f"{subject}, and so {outcome}",
        kind="atom",
        detail=AtomDetail(subject=subject, outcome=outcome, outcome_delay_s=None),
        occurred_at=START + timedelta(hours=at),
        scope=scope,
    )


def chain(brain: Brain, *names: str) -> list[str]:
    results = [
        atom(brain, f"kettle {name}", f"result {name}", at=at) for at, name in enumerate(names)
    ]
    for cause, effect in pairwise(results):
        brain.revise.link(cause, effect, type="causes")
    return results


def steps(traced: TraceResult) -> list[tuple[int, str]]:
    return [(step.depth, step.id) for step in traced.steps]


@pytest.mark.requirement("CT-01", "CT-10", "RT-16")
def test_trace_follows_causes_back_to_the_root_and_effects_forward(brain: Brain) -> None:
    first, second, third = chain(brain, "alpha", "beta", "gamma")
    back = brain.trace.causes(third)
    assert steps(back) == [(0, third), (1, second), (2, first)]
    assert [(root.id, root.explains) for root in back.roots] == [(first, 1)]
    assert (back.steps[1].via, back.steps[1].observations) == ("causes", 1)
    assert steps(brain.trace.effects(first)) == [(0, first), (1, second), (2, third)]


@pytest.mark.requirement("CT-10")
def test_circular_chain_of_causes_has_no_root(brain: Brain) -> None:
    first, second, third = chain(brain, "alpha", "beta", "gamma")
    brain.revise.link(third, first, type="causes")
    back = brain.trace.causes(third)
    assert steps(back) == [(0, third), (1, second), (2, first)]
    assert back.roots == ()
    assert any("is circular" in line for line in back.limits)


def test_step_reached_in_two_ways_is_shown_once_and_is_no_root(
    brain: Brain,
) -> None:
    first, second, third = chain(brain, "alpha", "beta", "gamma")
    brain.revise.link(first, third, type="causes")
    back = brain.trace.causes(third)
    assert sorted(steps(back)) == sorted([(0, third), (1, second), (1, first)])
    assert [root.id for root in back.roots] == [first]


def test_depth_limits_a_trace_and_the_trace_reports_that_it_continues(brain: Brain) -> None:
    results = chain(brain, "alpha", "beta", "gamma")
    back = brain.trace.causes(results[2], depth=1)
    assert (steps(back), back.roots, back.is_cut) == ([(0, results[2]), (1, results[1])], (), True)
    assert "It continues beyond depth 1." in back.limits
    for depth in (0, 11):
        with pytest.raises(RejectedError):
            brain.trace.causes(results[2], depth=depth)


def test_hidden_memory_ends_a_trace_without_being_named(brain: Brain) -> None:
    first = atom(brain, "kettle alpha", "result alpha")
    hidden = atom(brain, "kettle beta", "result beta", at=1, scope="private")
    third = atom(brain, "kettle gamma", "result gamma", at=2)
    brain.revise.link(first, hidden, type="causes")
    brain.revise.link(hidden, third, type="causes")
    assert steps(brain.trace.causes(third)) == [(0, third), (1, hidden), (2, first)]
    other = brain.acting_as(agent="codex")
    back = other.trace.causes(third)
    assert (steps(back), back.is_cut, back.gaps) == ([(0, third)], False, ())
    assert back.limits == ("Depth 0: nothing is known of its causes.",)
    with pytest.raises(NotFoundError):
        other.trace.causes(hidden)


def test_trace_finds_a_visible_path_around_hidden_memories(brain: Brain) -> None:
    first, second, third = chain(brain, "alpha", "beta", "gamma")
    hidden = atom(brain, "kettle delta", "result delta", at=1, scope="private")
    brain.revise.link(first, hidden, type="causes")
    brain.revise.link(hidden, third, type="causes")
    back = brain.acting_as(agent="codex").trace.causes(third)
    assert steps(back) == [(0, third), (1, second), (2, first)]


def test_forgotten_step_of_a_trace_shows_no_text(brain: Brain) -> None:
    first, second, third = chain(brain, "alpha", "beta", "gamma")
    brain.forget(ids=[second], reason="it was not so")
    back = brain.trace.causes(third)
    assert steps(back) == [(0, third), (1, second), (2, first)]
    assert (back.steps[1].headline, back.steps[1].source_ref) == (FORGOTTEN, None)
    assert any("no longer hold" in line for line in back.limits)


def test_trace_without_a_link_follows_equal_names_and_calls_them_so(brain: Brain) -> None:
    cause = atom(brain, "deploy of friday", "cache server lost its warm keys")
    effect = atom(brain, "cache server without warm keys", "pages were slow", at=1)
    back = brain.trace.causes(effect)
    assert steps(back) == [(0, effect), (1, cause)]
    assert (back.steps[1].via, back.steps[1].strength) == (VIA_NAME, None)
    assert back.steps[1].score is not None
    assert any("both name cache server" in gap for gap in back.gaps)
    assert brain.get(effect, views=["links"]).links == ()


def test_cause_dated_after_its_effect_is_reported_as_a_gap(brain: Brain) -> None:
    dated_later = atom(brain, "kettle alpha", "result alpha", at=5)
    early = atom(brain, "kettle beta", "result beta", at=1)
    brain.revise.link(dated_later, early, type="causes")
    assert any("dated after" in gap for gap in brain.trace.causes(early).gaps)


@pytest.mark.requirement("CT-03", "CT-08")
def test_deepen_ranks_roots_by_how_many_episodes_they_explain(brain: Brain) -> None:
    root = atom(brain, "config push", "settings changed")
    unlinked = atom(brain, "moon phase", "tides moved")
    broken = [atom(brain, f"payment outage {n}", f"customers lost {n}", at=n + 1) for n in range(3)]
    for one in broken:
        brain.revise.link(root, one, type="causes")
    brain.revise.link(unlinked, broken[0], type="causes")
    reply = brain.trace.deepen("payment outage customers lost")
    assert [(one.id, one.explains) for one in reply.roots] == [(root, 3), (unlinked, 1)]
    nothing = brain.acting_as(project="elsewhere").trace.deepen("zebra stripes")
    assert nothing.limits
    assert not nothing.roots


@pytest.mark.requirement("CT-08")
def test_deepen_reports_that_too_few_episodes_have_a_cause(brain: Brain) -> None:
    chain(brain, "alpha", "beta")
    reply = brain.trace.deepen("kettle beta result")
    assert any("a pattern needs at least 3" in line for line in reply.limits)


@pytest.mark.requirement("CT-05", "CT-09")
def test_patterns_show_delays_precursors_and_the_hour(brain: Brain, clock: FakeClock) -> None:
    clock.move(timedelta(days=30))
    for day in range(3):
        atom(brain, "batch import", f"tables were locked {day}", at=day * 24 - 1)
        atom(
            brain,
            f"api request {day}",
            "timeouts in the checkout",
            at=day * 24,
            delay=60.0 * (day + 1),
        )
    reply = brain.trace.patterns("timeouts in the checkout")
    assert reply.pattern is not None
    assert (reply.pattern.observations, reply.pattern.outcome_delay_s) == (3, 120)
    assert (reply.pattern.peak_hour, reply.pattern.consequence_delay_s) == (8, None)
    [first] = reply.precursors
    assert (first.subject, first.count, first.minutes_before) == ("batch import", 3, 60)


@pytest.mark.requirement("CT-05", "CT-09")
@pytest.mark.requirement("CT-12")
def test_precursors_that_differ_only_in_numbers_are_counted_as_one(
    brain: Brain, clock: FakeClock
) -> None:
    clock.move(START + timedelta(days=10, hours=1) - clock.now())

    def happened(text: str, *, kind: str, day: int, minutes: int = 0) -> None:
        when = START + timedelta(days=day, minutes=minutes)
        stored(brain, text, kind=kind, occurred_at=when)

    def outage(*, day: int, minutes: int) -> None:
        happened(f"Config push number {day}", kind="event", day=day)
        happened(
            "Checkout outage, payments were refused", kind="incident", day=day, minutes=minutes
        )

    outage(day=1, minutes=30)
    outage(day=8, minutes=40)
    for day in (3, 10):
        happened(f"Config push number {day}", kind="event", day=day)
    happened("Config push was reverted", kind="event", day=10, minutes=30)
    [push] = brain.trace.before("checkout outage payments").precursors
    assert push.without == 1, "the outage may still follow the last push"
    clock.move(timedelta(days=20))
    outage(day=15, minutes=40)
    outage(day=22, minutes=90)
    for reply in (
        brain.trace.before("checkout outage payments"),
        brain.trace.patterns("checkout outage payments"),
    ):
        [push] = reply.precursors
        assert (push.subject, push.count, push.share) == ("Config push number …", 4, 1)
        assert (push.minutes_before, push.minutes_min, push.minutes_max) == (40, 30, 90)
        assert push.without == 2


@pytest.mark.requirement("CT-12")
def test_precursor_without_the_outcome_is_counted_despite_its_label(
    brain: Brain, clock: FakeClock
) -> None:
    clock.move(START + timedelta(days=9) - clock.now())
    for day in range(1, 5):
        noon = START + timedelta(days=day)
        # The month is a word of the name; in the label, after a mark, it reads like a date.
        stored(brain, f"Report202{day}March was sent", kind="event", occurred_at=noon)
        if day > 1:
            when = noon + timedelta(minutes=30)
            stored(brain, "The mail queue stalled", kind="incident", occurred_at=when)
    [report] = brain.trace.before("mail queue stalled").precursors
    assert (report.subject, report.count, report.without) == ("Report…March was sent", 3, 1)


@pytest.mark.requirement("CT-09")
def test_each_recurrence_counts_as_an_observation(brain: Brain, clock: FakeClock) -> None:
    for _ in range(4):
        brain.remember("Config push to the shop", kind="event")
        clock.move(timedelta(minutes=30))
        brain.remember("The shop answered with errors", kind="event")
        clock.move(timedelta(days=7))
    reply = brain.trace.patterns("shop answered with errors")
    assert reply.pattern is not None
    assert reply.pattern.observations == 4
    [push] = reply.precursors
    assert (push.count, push.minutes_before, push.without) == (4, 30, 0)


@pytest.mark.requirement("CT-09")
def test_fewer_than_three_observations_are_no_pattern(brain: Brain) -> None:
    atom(brain, "api request", "timeouts in the checkout")
    reply = brain.trace.patterns("timeouts in the checkout")
    assert reply.pattern is None
    assert reply.limits == ("1 observation of this outcome; a pattern needs at least 3.",)


def test_precursors_are_counted_over_the_latest_observations(
    brain: Brain, clock: FakeClock
) -> None:
    clock.move(timedelta(days=30))
    for day in range(22):
        cause = "batch import" if day >= 2 else "old cron"
        atom(brain, cause, f"tables were locked {day}", at=day * 24 - 1)
        atom(brain, f"api request {day}", "timeouts in the checkout", at=day * 24)
    reply = brain.trace.patterns("timeouts in the checkout")
    assert reply.pattern is not None
    assert reply.pattern.observations == 22
    [first] = reply.precursors
    assert (first.subject, first.count, first.share) == ("batch import", 20, 1)
    assert "Precursors are counted for the latest 20 of 22 occurrences." in reply.limits
    query = brain.trace.before("timeouts in the checkout")
    assert query.precursors == reply.precursors
    assert query.is_cut


@pytest.mark.requirement("CT-05")
def test_before_lists_events_of_the_preceding_hours(brain: Brain) -> None:
    long_ago = atom(brain, "old news", "nothing much", at=0)
    near = atom(brain, "batch import", "tables were locked", at=7)
    end = atom(brain, "api request", "timeouts in the checkout", at=8)
    assert steps(brain.trace.before(end)) == [(0, end), (1, near)]
    assert steps(brain.trace.before("timeouts in the checkout", hours=24)) == [
        (0, end),
        (1, near),
        (1, long_ago),
    ]


@pytest.mark.requirement("CT-05")
def test_before_a_time_lists_events_of_the_preceding_hours(brain: Brain) -> None:
    atom(brain, "old news", "nothing much", at=0)
    near = atom(brain, "batch import", "tables were locked", at=7)
    atom(brain, "api request", "timeouts in the checkout", at=8)
    reply = brain.trace.before("1 March 2026 at 16:00")
    assert steps(reply) == [(0, near)]
    assert reply.precursors == ()
    assert reply.limits == ("Before 2026-03-01T16:00:00Z, 4 hours; no outcome was given.",)
    assert len(brain.trace.before("2026-03-02", hours=24).steps) == 3
    assert "Nothing is recorded for the 4 hours before." in brain.trace.before("in 2020").limits


def test_query_before_the_earliest_time_returns_nothing(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    for time in ("0001-01-01", "0001-01-01T01:00:00Z"):
        with subtests.test(time=time):
            assert brain.trace.before(time).steps == ()


@pytest.mark.requirement("CT-10")
def test_private_memories_of_others_do_not_change_a_trace(brain: Brain) -> None:
    cause, effect = chain(brain, "alpha", "beta")
    before = brain.trace.causes(effect)
    bob = brain.acting_as(agent="bob")
    # More than the steps of a trace.
    thoughts = [
        an_atom(f"thought {n}", f"matter {n}", at=-1, scope=Scope.PRIVATE)
        for n in range(STEPS_MAX + 1)
    ]
    for thought in bob.remember(thoughts).items:
        bob.revise.link(thought.id or "", effect, type="causes", strength=1.0)
        bob.revise.link(thought.id or "", cause, type="depends_on")
    assert brain.trace.causes(effect) == before
    assert brain.trace.dependents(cause).limits == ("Nothing depends on it.",)
    assert not brain.trace.dependents(cause).is_cut


@pytest.mark.requirement("CT-10")
def test_untrusted_memory_is_no_cause_unless_it_is_traced_itself(brain: Brain) -> None:
    first, second = chain(brain, "alpha", "beta")
    web = brain.acting_as(agent="web", trust_ceiling=Trust.UNTRUSTED_WEB)
    lie = atom(web, "the sabotage of ann", "result alpha", at=-1)
    web.revise.link(lie, first, type="causes", strength=1.0)
    assert [root.id for root in brain.trace.causes(second).roots] == [first]
    assert steps(brain.trace.effects(lie))[:2] == [(0, lie), (1, first)]


def test_trace_shows_the_nearest_of_many_causes_with_their_links(brain: Brain) -> None:
    effect = atom(brain, "kettle", "tea", at=9)
    drafts = [an_atom(f"thing {n}", f"matter {n}", at=n / 10) for n in range(STEPS_MAX + 5)]
    for number, cause in enumerate(brain.remember(drafts).items):
        strength = 0.1 if number < STEPS_MAX - 5 else 0.9
        brain.revise.link(cause.id or "", effect, type="causes", strength=strength)
    back = brain.trace.causes(effect)
    assert len(back.steps) == STEPS_MAX + 1
    assert back.is_cut
    assert all(step.via == "causes" and step.strength for step in back.steps[1:])


def test_trace_does_not_treat_recurrences_or_negations_as_causes(
    brain: Brain,
) -> None:
    def happened(text: str, *, at: int, project: str = "checkout") -> str:
        return stored(
            brain,
            text,
            kind="incident",
            occurred_at=START + timedelta(hours=at),
            project=project,
            distinct_because="it happened again",
        )

    happened("Checkout answered with an error to every customer", at=0)
    happened("Checkout did not answer with an error to every customer", at=1)
    again = happened("Checkout answered with an error to every customer again", at=9)
    assert brain.trace.causes(again).roots == ()
    cause = happened("The order queue grew to a million messages", at=10)
    end = happened("The order queue of a million messages exhausted the broker", at=11)
    [root] = brain.trace.causes(end).roots
    assert (root.id, root.is_guess) == (cause, True)
    happened("The new order queue of two million messages filled a disk", at=12, project="other")
    assert [root.id for root in brain.trace.causes(end).roots] == [cause]


@pytest.mark.requirement("CT-09")
def test_incident_and_its_extracted_atoms_are_one_observation(brain: Brain) -> None:
    for day in range(2):
        stored(
            brain,
            f"The disk of db{day} filled up, causing the checkout to fail.",
            kind="incident",
            occurred_at=START + timedelta(days=day),
            extract_causes=True,
        )
    reply = brain.trace.patterns("checkout to fail")
    assert reply.limits == ("2 observations of this outcome; a pattern needs at least 3.",)
    assert all(root.explains <= 2 for root in brain.trace.deepen("checkout to fail").roots)


def test_simultaneous_memories_do_not_hide_precursors(brain: Brain) -> None:
    near = atom(brain, "batch import", "tables were locked", at=7)
    for number in range(25):
        atom(brain, f"noise {number}", f"nothing {number}", at=8)
    end = atom(brain, "api request", "timeouts in the checkout", at=8)
    assert steps(brain.trace.before(end)) == [(0, end), (1, near)]
    for number in range(25):
        atom(brain, f"hum {number}", f"little {number}", at=7.5)
    assert brain.trace.before(end).is_cut


def test_expired_cause_is_shown_as_no_longer_current(brain: Brain, clock: FakeClock) -> None:
    when = START + timedelta(hours=1)
    cause = stored(brain, "The pager is off", kind="fact", occurred_at=START, ttl_s=3600)
    effect = stored(brain, "Nobody answered", kind="incident", occurred_at=when)
    brain.revise.link(cause, effect, type="causes")
    assert "1 of 1 step no longer hold." not in brain.trace.causes(effect).limits
    clock.move(timedelta(hours=2))
    assert "1 of 1 step no longer hold." in brain.trace.causes(effect).limits


def test_trace_query_that_is_too_long_is_refused(brain: Brain, subtests: pytest.Subtests) -> None:
    for op in ("causes", "before", "patterns", "deepen"):
        with subtests.test(op=op), pytest.raises(RejectedError, match="2,000 are allowed"):
            getattr(brain.trace, op)("x" * 2001)


@pytest.mark.requirement("PV-06")
def test_dependents_and_provenance_have_the_form_of_traces(brain: Brain) -> None:
    source = stored(brain, "The build has two cores", kind="fact")
    rule = stored(brain, "Never run the whole suite twice", kind="rule", derived_from=[source])
    assert steps(brain.trace.dependents(source)) == [(0, source), (1, rule)]
    assert steps(brain.trace.provenance(rule)) == [(0, rule), (1, source)]
    assert brain.trace.dependents(rule).limits == ("Nothing depends on it.",)
