"""Laws of answers: in whatever order, what binds is what a plain model says binds."""

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from commonbrain.client import Brain
from commonbrain.ingestion.pending_acks import pending_items
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.kinds import Kind
from commonbrain.model.tasks import (
    DEFERRED_DAYS_MAX,
    Decision,
    TaskDecision,
    ack_image,
    ack_of,
    check_decision,
)
from commonbrain.testing.builders import NOON, FakeClock, a_brain
from tests.asking import stored

ITEMS = ("task", "rule")
WHO = (("bo", "s1"), ("bo", "s2"), ("cy", "s1"), ("cy", None))
Answer = tuple[int, int, Decision, int]


@dataclass(slots=True)
class Model:
    """The decisions: of which agent on which item, and until when each holds."""

    held: dict[tuple[str, str, str | None], datetime | None] = field(
        default_factory=dict[tuple[str, str, str | None], "datetime | None"]
    )
    done: set[str] = field(default_factory=set[str])

    def binds(self, item: str, who: tuple[str, str | None], now: datetime) -> bool:
        answers = [
            until
            for (answered, *whose), until in self.held.items()
            if answered == item and (item == "task" or tuple(whose) == who)
        ]
        return item not in self.done and not any(one is None or one > now for one in answers)


@settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@example(answers=[(0, 0, Decision.DEFERRED, 1), (0, 1, Decision.WILL_EXECUTE, 1)])
@given(
    answers=st.lists(
        st.tuples(
            st.integers(0, 1),
            st.integers(0, len(WHO) - 1),
            st.sampled_from(Decision),
            st.integers(1, 4),
        ),
        max_size=8,
    )
)
@pytest.mark.requirement("SE-26")
def test_pending_action_items_follow_from_the_acknowledgements_alone(
    answers: list[Answer], tmp_path_factory: pytest.TempPathFactory
) -> None:
    clock, model = FakeClock(), Model()
    path: Path = tmp_path_factory.mktemp("laws") / "brain.db"
    with a_brain(path, clock=clock) as ann:
        fields = {
            "task": stored(ann, "Rotate the deploy key", kind="task", must_ack=True),
            "rule": stored(ann, "Never push on a friday", kind="rule", must_ack=True),
        }
        views = {who: ann.acting_as(agent=who[0], session=who[1]) for who in WHO}
        for item, who, decision, hours in answers:
            answer(views[WHO[who]], ITEMS[item], known=fields, decision=decision, hours=hours)
            note(model, ITEMS[item], WHO[who], decision=decision, until=clock.now(), hours=hours)
            clock.move(timedelta(hours=1))
            for one, view in views.items():
                expected = {fields[it] for it in ITEMS if model.binds(it, one, clock.now())}
                assert binding(view) == expected
                check_blocks(view, is_blocked=bool(expected))


def answer(
    view: Brain, item: str, *, known: dict[str, str], decision: Decision, hours: int
) -> None:
    """Answer as well as can be; what cannot be said, or not any more, changes nothing."""
    until = view.services.clock.now() + timedelta(hours=hours)
    options = {"until": until} if decision is Decision.DEFERRED else {}
    with suppress(InvalidInputError, RejectedError):
        view.revise.ack(known[item], decision, reason="so it is", **options)


def note(
    model: Model,
    item: str,
    who: tuple[str, str | None],
    *,
    decision: Decision,
    until: datetime,
    hours: int,
) -> None:
    """Let the model know what was answered."""
    if decision is Decision.ALREADY_DONE and item == "rule":
        return
    is_deferred = decision is Decision.DEFERRED
    model.held[item, *who] = until + timedelta(hours=hours) if is_deferred else None
    if decision is Decision.ALREADY_DONE:
        model.done.add(item)


def binding(view: Brain) -> set[str]:
    with view.services.store.snapshot(view.caller.tenant) as tx:
        matches = pending_items(tx, view.caller, project=None, now=view.services.clock.now())
    return {ids.show(ids.MEMORY, one.id) for one in matches}


def check_blocks(view: Brain, *, is_blocked: bool) -> None:
    """Check that a write that changes nothing is let through or not."""
    if not is_blocked:
        view.remember("The tea is hot", kind="fact")
        return
    with pytest.raises(RejectedError) as refusal:
        view.remember("The tea is hot", kind="fact")
    assert refusal.value.code == "action_items_pending"


@given(
    decision=st.sampled_from(Decision),
    kind=st.sampled_from([Kind.TASK, Kind.RULE]),
    reason=st.none() | st.just("so it is"),
    hours=st.none() | st.integers(-48, DEFERRED_DAYS_MAX * 24 + 48),
)
def test_only_complete_acknowledgements_are_accepted_and_they_survive_serialization(
    decision: Decision, kind: Kind, reason: str | None, hours: int | None
) -> None:
    until = None if hours is None else NOON + timedelta(hours=hours)
    ack = TaskDecision(
        memory_id=1, agent="bo", decision=decision, reason=reason, until=until, at=NOON
    )
    is_whole = (
        not (decision is Decision.ALREADY_DONE and kind is Kind.RULE)
        and (reason is not None or decision in {Decision.WILL_EXECUTE, Decision.DEFERRED})
        and (hours is not None) is (decision is Decision.DEFERRED)
        and (hours is None or 0 < hours <= DEFERRED_DAYS_MAX * 24)
    )

    assert ack_of(ack_image(ack)) == ack
    if is_whole:
        check_decision(ack, kind)
    else:
        with pytest.raises(InvalidInputError):
            check_decision(ack, kind)
