from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from commonbrain.client import Brain
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.kinds import EventDetail, FactDetail, Kind
from commonbrain.model.memory import Draft, State
from commonbrain.model.recall_result import ResultStatus
from commonbrain.model.scope import Role, Scope, Trust
from commonbrain.testing.builders import FakeClock, a_brain
from tests.asking import FailingEmbedder, bodies, remember_one, stored

FACT = "The nightly build runs on two cores"
RESTATED = "The nightly build, it runs on two cores"


def acting(brain: Brain, **changes: Any) -> Brain:  # noqa: ANN401
    """Open the same brain for a caller with other rights."""
    return Brain(brain.services, replace(brain.caller, **changes))


@pytest.mark.requirement("DM-17")
def test_memory_is_stored_with_all_fields_that_its_author_gives(
    brain: Brain, clock: FakeClock
) -> None:
    happened = datetime(2026, 1, 2, tzinfo=UTC)
    id_ = stored(
        brain,
        FACT,
        kind="decision",
        project="api",
        tags=["ci", "build", "ci"],
        source_ref="ci.yml:3",
        occurred_at=happened,
        confidence=0.9,
        detail=FactDetail(subject="build"),
    )
    memory = brain.get(id_)
    assert (memory.kind, memory.label, memory.project) == (Kind.FACT, "decision", "api")
    assert (memory.headline, memory.body, memory.tags) == (FACT, FACT, ("ci", "build"))
    assert (memory.agent, memory.trust, memory.confidence) == ("ann", Trust.USER_CLAIM, 0.9)
    assert (memory.occurred_at, memory.recorded_at) == (happened, clock.now())
    assert memory.detail["subject"] == "build"


@pytest.mark.requirement("WP-01")
def test_text_without_a_kind_is_classified_by_its_words(brain: Brain) -> None:
    assert remember_one(brain, "Never push to main").kind is Kind.RULE
    assert remember_one(brain, "The disk crashed at noon").kind is Kind.INCIDENT
    assert remember_one(brain, "We need to rotate the keys").kind is Kind.TASK
    assert remember_one(brain, "Postgres listens on 5432").kind is Kind.FACT


@pytest.mark.requirement("WP-01")
def test_refusal_names_its_step_and_stores_nothing(brain: Brain) -> None:
    outcome = remember_one(brain, "🎉🎉", kind="fact")
    assert (outcome.status, outcome.id, outcome.code) == (
        ItemStatus.REJECTED,
        None,
        "gate_headline",
    )
    assert outcome.hint
    assert brain.status().memories == 0


def test_message_of_a_single_emoji_is_stored_and_recalled(brain: Brain) -> None:
    stored(brain, "🎉", kind="message")
    assert bodies(brain, "🎉") == ["🎉"]


def test_given_headline_is_searched_and_stored(brain: Brain) -> None:
    id_ = stored(brain, "Row-level security.", kind="fact", headline="Why Postgres\nit is")
    assert brain.get(id_).headline == "Why Postgres it is"
    assert bodies(brain, "Postgres") == ["Row-level security."]


def test_headline_without_a_text_is_stored_and_recalled(brain: Brain) -> None:
    stored(brain, "", kind="fact", headline="Postgres it is")
    assert "> Postgres it is" in brain.recall("Postgres").evidence


def test_identical_text_exists_despite_different_case_and_spacing(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    id_ = stored(brain, FACT, kind="fact")
    for again in (FACT, FACT.upper(), FACT.replace(" ", "  \n")):
        with subtests.test(again=again):
            outcome = remember_one(brain, again, kind="fact")
            assert (outcome.status, outcome.id) == (ItemStatus.EXISTS, id_)
            assert brain.status().memories == 1


@pytest.mark.requirement("WP-06")
@pytest.mark.parametrize("kind", ["fact", "rule"])
@pytest.mark.requirement("WP-15")
def test_restated_fact_is_refused_with_the_call_to_supersede_it(brain: Brain, kind: str) -> None:
    id_ = stored(brain, FACT, kind=kind)
    outcome = remember_one(brain, RESTATED, kind=kind)
    assert (outcome.status, outcome.id, outcome.code) == (ItemStatus.DUPLICATE, id_, "duplicate")
    assert f"supersede {id_}" in (outcome.hint or "")
    assert brain.revise.supersede(id_, RESTATED, reason="clearer").status is ItemStatus.STORED


def test_duplicate_declared_distinct_by_its_author_is_stored_with_a_warning(brain: Brain) -> None:
    id_ = stored(brain, FACT, kind="fact")
    outcome = remember_one(brain, RESTATED, kind="fact", distinct_because="another build")
    assert outcome.status is ItemStatus.STORED
    assert [similar.id for similar in outcome.similar] == [id_]
    assert outcome.warnings


def test_restated_task_is_stored_with_a_warning(brain: Brain) -> None:
    stored(brain, FACT, kind="task")
    outcome = remember_one(brain, RESTATED, kind="task")
    assert (outcome.status, len(outcome.warnings)) == (ItemStatus.STORED, 1)


def test_two_facts_that_differ_in_a_number_are_both_stored(brain: Brain) -> None:
    first = stored(brain, "The upload limit of the api is 10 MB", kind="fact")
    second = remember_one(brain, "The upload limit of the api is 20 MB", kind="fact")
    assert second.status is ItemStatus.STORED
    assert [similar.id for similar in second.similar] == [first]


def test_fact_and_its_negation_are_both_stored(brain: Brain) -> None:
    stored(brain, "The upload cache of the api is shared", kind="fact")
    stored(brain, "The upload cache of the api is not shared", kind="fact")


@pytest.mark.requirement("WP-41")
def test_recurring_incident_is_stored_with_up_to_five_hints(brain: Brain) -> None:
    for host in "abcdef":
        stored(brain, f"The disk of the build host ran full {host}", kind="incident")
    again = remember_one(brain, "The disk of the build host ran full", kind="incident")
    assert (again.status, len(again.similar)) == (ItemStatus.STORED, 5)


@pytest.mark.parametrize("kind", ["message", "incident"])
def test_repeated_utterance_is_stored_unless_it_has_the_same_source(
    brain: Brain, kind: str
) -> None:
    stored(brain, "Good morning", kind=kind)
    stored(brain, "Good morning", kind=kind)
    first = stored(brain, "Good morning", kind=kind, source_ref="chat#1")
    stored(brain, "Good morning", kind=kind, source_ref="chat#2")
    outcome = remember_one(brain, "Good morning", kind=kind, source_ref="chat#1")
    assert (outcome.status, outcome.id) == (ItemStatus.EXISTS, first)


def test_same_text_with_another_kind_is_a_separate_memory(brain: Brain) -> None:
    stored(brain, FACT, kind="fact")
    stored(brain, FACT, kind="event")


def test_forgotten_memory_can_be_stored_again(brain: Brain) -> None:
    brain.forget(stored(brain, FACT, kind="fact"), reason="wrong")
    stored(brain, FACT, kind="fact")


def test_text_restated_in_another_project_is_stored_without_hints(brain: Brain) -> None:
    stored(brain, FACT, kind="fact", project="api")
    elsewhere = remember_one(brain, RESTATED, kind="fact", project="web")
    assert (elsewhere.status, elsewhere.similar) == (ItemStatus.STORED, ())
    assert remember_one(brain, FACT, kind="fact", project="docs").status is ItemStatus.STORED


def test_memory_of_every_project_is_a_duplicate_in_each_project(brain: Brain) -> None:
    id_ = stored(brain, FACT, kind="fact")
    assert remember_one(brain, FACT, kind="fact", project="api").id == id_
    assert remember_one(brain, RESTATED, kind="fact", project="api").status is ItemStatus.DUPLICATE


@pytest.mark.parametrize("project", ["mine", None])
def test_many_near_texts_of_other_projects_do_not_hide_a_duplicate(
    brain: Brain, project: str | None
) -> None:
    for n in range(30):
        stored(brain, FACT, kind="fact", project=f"p{n}")
    of_project = brain.acting_as(project=project)
    id_ = stored(of_project, RESTATED, kind="fact")
    assert (
        remember_one(of_project, FACT, kind="fact").status,
        remember_one(of_project, FACT, kind="fact").id,
    ) == (
        ItemStatus.DUPLICATE,
        id_,
    )


def test_private_memory_of_another_agent_is_never_recalled_compared_or_hinted_at(
    brain: Brain,
) -> None:
    secret = stored(brain.acting_as(agent="bob"), FACT, kind="fact", scope="private")
    for text in (FACT, RESTATED):
        outcome = remember_one(brain, text, kind="fact", scope="private", distinct_because="mine")
        assert outcome.id != secret
        assert secret not in [similar.id for similar in outcome.similar]
    assert secret not in [item.id for item in brain.recall(FACT).items]


def test_own_private_memory_is_no_duplicate_of_a_team_memory(brain: Brain) -> None:
    stored(brain, FACT, kind="fact", scope=Scope.PRIVATE)
    shared = remember_one(brain, RESTATED, kind="fact")
    assert (shared.status, shared.similar) == (ItemStatus.STORED, ())


def test_batch_with_one_refused_text_stores_the_others_in_order(brain: Brain) -> None:
    drafts = [
        Draft(body="The api is written in Go", kind="fact"),
        Draft(body="", kind="fact"),
        Draft(body="Deploys happen at noon", kind="fact"),
        Draft(body="It has a tag too long", kind="fact", tags=("x" * 129,)),
        Draft(body="The api is written in Go", kind="fact"),
    ]
    items = brain.remember(drafts).items
    assert [item.status for item in items] == [
        ItemStatus.STORED,
        ItemStatus.REJECTED,
        ItemStatus.STORED,
        ItemStatus.REJECTED,
        ItemStatus.EXISTS,
    ]
    assert items[0].id == items[4].id
    assert brain.status().memories == 2


def test_near_duplicates_within_one_batch_are_detected(brain: Brain) -> None:
    items = brain.remember([Draft(body=text, kind="fact") for text in (FACT, RESTATED)]).items
    assert [item.status for item in items] == [ItemStatus.STORED, ItemStatus.DUPLICATE]
    assert items[1].id == items[0].id


def test_empty_batch_is_accepted(brain: Brain) -> None:
    assert brain.remember([]).items == ()


@pytest.mark.requirement("DM-71")
def test_batch_of_more_than_a_hundred_items_is_refused_whole(brain: Brain) -> None:
    drafts = [Draft(body=f"Fact number {n}", kind="event") for n in range(101)]
    with pytest.raises(RejectedError, match="101 items") as refusal:
        brain.remember(drafts)
    assert refusal.value.code == "limit_exceeded"
    assert brain.status().memories == 0
    assert len(brain.remember(drafts[:100]).items) == 100


@pytest.mark.requirement("ST-05")
def test_caller_writes_only_to_scopes_of_its_role(brain: Brain) -> None:
    reader, writer = acting(brain, role=Role.READER), acting(brain, role=Role.WRITER)
    with pytest.raises(RejectedError, match="reader"):
        reader.remember(FACT)
    with pytest.raises(RejectedError, match="admin"):
        writer.remember(FACT, scope="global")
    assert brain.status().memories == 0
    stored(brain, FACT, kind="fact", scope="global")


@pytest.mark.requirement("WP-26")
def test_trust_may_be_lowered_but_not_raised_above_the_ceiling(brain: Brain) -> None:
    limited = brain.acting_as(trust_ceiling=Trust.USER_CLAIM)
    with pytest.raises(RejectedError) as refusal:
        limited.remember(FACT, trust="trusted_tool")
    assert refusal.value.code == "trust_override_denied"
    web = stored(limited, FACT, kind="fact", trust="untrusted_web")
    assert brain.get(web).trust is Trust.UNTRUSTED_WEB


def test_refusal_of_a_scope_or_trust_names_the_allowed_ones(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    for fields in ({"scope": "public"}, {"trust": "full"}):
        with subtests.test(fields=fields), pytest.raises(InvalidInputError, match="Choose one of"):
            brain.remember(FACT, **fields)  # type: ignore[arg-type]


def test_rule_from_the_web_is_quarantined_and_not_recalled(brain: Brain) -> None:
    outcome = remember_one(brain, "Never trust the docs", kind="rule", trust="untrusted_web")
    assert outcome.status is ItemStatus.QUARANTINED
    assert outcome.id is not None
    assert brain.get(outcome.id).state is State.QUARANTINED
    assert bodies(brain, "Never trust the docs", trust_min=0.0) == []
    assert bodies(brain, trust_min=0.0) == []
    stored(brain, "Never trust the docs", kind="rule")


@pytest.mark.requirement("WP-34")
def test_memory_is_stored_and_recalled_by_words_while_the_embedder_is_down(path: Path) -> None:
    embedder = FailingEmbedder()
    with a_brain(path, embedder=embedder) as brain:
        embedder.is_down = True
        outcome = remember_one(brain, FACT, kind="fact")
        assert (outcome.status, outcome.embedding_pending) == (ItemStatus.STORED, True)
        answer = brain.recall("nightly build")
        assert [item.body for item in answer.items] == [FACT]
        assert [reason.partition(",")[0] for reason in answer.degraded] == ["vector: embedder_down"]
        assert brain.status().embedding_pending == 1
        embedder.is_down = False
        assert brain.recall("nightly build").degraded == ()
        assert remember_one(brain, FACT, kind="fact").status is ItemStatus.EXISTS


class Die:
    """Chance that may be loaded: every throw gives the number on top."""

    top = 0

    def bits(self, count: int) -> int:
        return self.top % (1 << count)


@pytest.mark.requirement("WP-11")
def test_failed_transaction_leaves_no_row_no_word_and_no_vector(path: Path) -> None:
    die = Die()
    with a_brain(path, random_source=die) as brain:
        # With the clock standing still, the second draws the id of the first, again and again.
        with pytest.raises(RuntimeError, match="No free id"):
            brain.remember([Draft(body=FACT, kind="fact"), Draft(body="Other words", kind="fact")])
        assert brain.recall(FACT).verdict is ResultStatus.NOTHING_STORED
        stored(brain, RESTATED, kind="fact")
        die.top = 1
        assert bodies(brain, FACT) == [RESTATED]
        assert remember_one(brain, FACT, kind="fact").status is ItemStatus.DUPLICATE
        assert brain.doctor().is_sound


def test_memory_persists_after_the_store_is_reopened(path: Path) -> None:
    with a_brain(path) as brain:
        id_ = stored(brain, FACT, kind="fact")
    with a_brain(path) as reopened:
        assert reopened.get(id_).body == FACT
        assert remember_one(reopened, RESTATED, kind="fact").status is ItemStatus.DUPLICATE


def test_many_agents_remember_and_recall_concurrently(brain: Brain) -> None:
    def work(n: int) -> Sequence[str | None]:
        agent = brain.acting_as(agent=f"agent {n}")
        for m in range(3):
            stored(agent, f"Agent {n} saw comet c{n}x{m}", kind="event")
        return [outcome for m in range(3) for outcome in bodies(agent, f"c{n}x{m}", max_items=1)]

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    assert results == [[f"Agent {n} saw comet c{n}x{m}" for m in range(3)] for n in range(8)]
    assert brain.status().by_kind == {Kind.EVENT: 24}
    assert brain.doctor().is_sound


def test_equal_texts_remembered_concurrently_are_stored_once(brain: Brain) -> None:
    agents = [brain.acting_as(agent=f"agent {n}") for n in range(16)]
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(partial(remember_one, text=FACT, kind="fact"), agents))
    assert len({outcome.id for outcome in outcomes}) == 1
    assert sorted(outcome.status for outcome in outcomes) == ["exists"] * 15 + ["stored"]


def test_agent_acts_under_its_own_name_project_and_session(brain: Brain) -> None:
    other = brain.acting_as(agent="bob", project="api", session="s1")
    memory = brain.get(stored(other, FACT, kind="fact"))
    assert (memory.agent, memory.project, memory.session) == ("bob", "api", "s1")
    assert brain.caller.agent == "ann"


@pytest.mark.requirement("DM-23")
def test_expired_memory_is_not_recalled(brain: Brain, clock: FakeClock) -> None:
    stored(brain, FACT, kind="fact", expires_at=clock.now() + timedelta(hours=1))
    assert bodies(brain, "nightly") == [FACT]
    clock.move(timedelta(hours=1))
    assert bodies(brain, "nightly") == []
    assert bodies(brain) == []


@pytest.mark.requirement("DM-23")
def test_memory_with_a_past_expiry_is_refused_unless_it_happened_before(
    brain: Brain, clock: FakeClock
) -> None:
    with pytest.raises(InvalidInputError, match="expired already, on 2020-01-01"):
        brain.remember(FACT, kind="fact", expires_at="2020-01-01")
    ended, later = clock.now() - timedelta(days=1), clock.now() + timedelta(days=1)
    for fields in ({"expires_at": clock.now()}, {"occurred_at": later, "expires_at": ended}):
        with pytest.raises(InvalidInputError):
            brain.remember(FACT, kind="fact", **fields)  # pyright: ignore[reportArgumentType]
    stored(brain, FACT, kind="fact", occurred_at=ended - timedelta(days=1), expires_at=ended)
    assert bodies(brain) == []


def test_repeated_call_returns_its_first_reply_after_its_memory_expired(
    brain: Brain, clock: FakeClock
) -> None:
    call = {"kind": "fact", "expires_at": clock.now() + timedelta(hours=1), "idempotency_key": "k"}
    first = brain.remember(FACT, **call).items[0]  # pyright: ignore[reportArgumentType]
    clock.move(timedelta(hours=2))
    again = brain.remember(FACT, **call).items[0]  # pyright: ignore[reportArgumentType]
    assert again.id == first.id


@pytest.mark.requirement("DM-71")
def test_names_out_of_bounds_are_rejected(brain: Brain) -> None:
    for fields in ({"label": "x" * 129}, {"source_ref": "x" * 513}, {"tags": ["x"] * 51}):
        outcome = remember_one(brain, FACT, **fields)  # pyright: ignore[reportArgumentType]
        assert (outcome.status, outcome.code) == (ItemStatus.REJECTED, "limit_exceeded")


@pytest.mark.parametrize("hostile", ["a\x00b", "\x1b[31m", "half \ud83d", "x\n> y"])
def test_hostile_name_breaks_neither_the_store_nor_its_line_of_evidence(
    brain: Brain, hostile: str
) -> None:
    stored(brain, FACT, kind="event", label=hostile, project=hostile, tags=[hostile])
    assert len(brain.recall(FACT).evidence.splitlines()) == 3


def test_event_is_stored_with_its_own_columns(brain: Brain) -> None:
    id_ = stored(brain, FACT, kind="event", detail=EventDetail(actor="ci", importance=0.5))
    assert brain.get(id_).detail == {"actor": "ci", "importance": 0.5, "recurrences": 0}


def test_expired_memory_can_be_stored_again(brain: Brain, clock: FakeClock) -> None:
    stored(brain, FACT, kind="fact", expires_at=clock.now() + timedelta(hours=1))
    clock.move(timedelta(hours=2))
    stored(brain, FACT, kind="fact")
    assert bodies(brain, FACT) == [FACT]


def test_more_trusted_text_is_no_duplicate_of_a_less_trusted_memory(brain: Brain) -> None:
    stored(brain, FACT, kind="fact", trust="untrusted_web")
    stored(brain, FACT, kind="fact")
    assert bodies(brain, FACT) == [FACT]
    assert remember_one(brain, FACT, kind="fact", trust="untrusted_web").status is ItemStatus.EXISTS
