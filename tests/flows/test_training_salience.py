"""A model of salience is made of what memories came to, and judged by what came after."""

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from commonbrain.api.operations.model import MODEL, ModelRequest
from commonbrain.client import Brain
from commonbrain.embeddings.interface import Matrix
from commonbrain.ingestion.salience import SalienceModels
from commonbrain.learning.usefulness import FEATURES
from commonbrain.model import ids
from commonbrain.model.errors import RejectedError
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import JOB_LEASE_S
from commonbrain.model.memory import Memory
from commonbrain.model.model_card import ModelCard, ModelRole, ModelState
from commonbrain.model.query import Feedback, FeedbackMark
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.blobs import Blobs
from commonbrain.testing.builders import NOON, FakeClock, a_brain, a_memory
from tests.contracts.learning_contract import a_card, a_trace
from tests.flows.asking import stored
from tests.flows.working import a_worker

DAYS = 60
HOUR = timedelta(hours=1)
NOW = timedelta(days=DAYS + 31)
"""After noon: all that was written within the sixty days has settled."""


def write(brain: Brain, *, count: int = 360) -> None:
    """Fill a store with two months' memories: what Ann sources is used, what Bob notes is not."""
    random_source = random.Random(7)  # noqa: S311 it is meant to be foreseen
    rows: list[tuple[Memory, bool]] = []
    for n in range(count):
        at = NOON + n * timedelta(days=DAYS) / count
        is_good = random_source.random() < 0.3
        agent = "ann" if random_source.random() < (0.9 if is_good else 0.3) else "bob"
        memory = a_memory(
            ids.make_id(at, n),
            f"Kettle {n} boils." if is_good else f"Must check kettle {n} and note it.",
            kind=Kind.FACT if random_source.random() < 0.5 else Kind.EVENT,
            agent=agent,
            session=f"s{n // 6}",
            source_ref="log.txt" if is_good or random_source.random() < 0.2 else None,
            recorded_at=at,
            occurred_at=at,
        )
        rows.append((memory, is_good and random_source.random() < 0.9))
    with brain.services.store.begin(LOCAL_TENANT) as tx:
        for memory, _ in rows:
            tx.memories.add(memory)
    used = [memory for memory, is_used in rows if is_used]
    traces = [
        a_trace((one.recorded_at - NOON) // timedelta(minutes=1) + 60, one.id) for one in used
    ]
    brain.services.store.note_reads(LOCAL_TENANT, traces=traces, accesses=[], retain_from=NOON)
    with brain.services.store.begin(LOCAL_TENANT) as tx:
        for memory, trace in zip(used, traces, strict=True):
            told = Feedback(
                trace_id=trace.id,
                memory_id=memory.id,
                mark=FeedbackMark.USED,
                agent="bo",
                session="s1",
                at=trace.asked_at,
            )
            tx.recall_log.mark([told])


@pytest.fixture(scope="module")
def lived_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brain]:
    clock = FakeClock()
    clock.move(NOW)
    with a_brain(tmp_path_factory.mktemp("lived") / "brain.db", clock=clock) as brain:
        write(brain)
        yield brain


def trained(brain: Brain, **given: object) -> tuple[dict[str, object], ModelCard | None]:
    """Train, and give what the job tells and the card that it made."""
    job = brain.jobs.run("train_salience", given)
    a_worker(brain).sweep()
    done = brain.jobs.show(job.id)
    assert done.state == "done", done
    result = dict(done.result or {})
    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        cards = tx.models.listed(ModelRole.SALIENCE, limit=9)
    made = [card for card in cards if ids.show(ids.MODEL, card.id) == result.get("model")]
    return result, made[0] if made else None


def learnt(brain: Brain) -> ModelCard:
    """Give the latest model, made now where no test before had one made."""
    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        cards = tx.models.listed(ModelRole.SALIENCE, limit=1)
    card = cards[0] if cards else trained(brain)[1]
    assert card is not None
    return card


@pytest.mark.requirement("JB-02")
def test_a_model_is_made_that_tells_better_than_the_rule_what_will_be_of_use(
    lived_in: Brain,
) -> None:
    result, card = trained(lived_in)
    assert card is not None
    assert result["outcome"] == "better"
    assert (card.role, card.state, card.parent) == (ModelRole.SALIENCE, ModelState.CANDIDATE, None)
    auc = cast("Mapping[str, Mapping[str, float]]", card.told["metrics"])["auc"]
    assert auc["rule"] < 0.5
    assert auc["learnt"] > 0.8
    assert 0 < auc["low"] < auc["high"]
    artifact = lived_in.services.blobs().get(card.digest)
    told = json.loads(artifact)
    assert told["booster"].startswith("tree\n")
    assert b"ettle" not in artifact, "no word of a memory is in a model"
    assert set(told["authors"]) == {"ann", "bob"}


class Killed(BaseException):
    """What nobody catches, as nobody catches a SIGKILL."""


@dataclass
class DeadlyBlobs:
    """Keeps an artifact, and then its keeper dies."""

    blobs: Blobs
    location: str = "nowhere"

    def put(self, content: bytes) -> str:
        raise Killed(self.blobs.put(content))

    def get(self, digest: str) -> bytes:
        return self.blobs.get(digest)

    def drop(self, digest: str) -> None:
        self.blobs.drop(digest)


def test_whoever_takes_up_what_another_died_of_makes_the_same_model_once(lived_in: Brain) -> None:
    learnt(lived_in)
    with lived_in.services.store.snapshot(LOCAL_TENANT) as tx:
        before = tx.models.listed(ModelRole.SALIENCE, limit=9)
    job = lived_in.jobs.run("train_salience")
    blobs = DeadlyBlobs(lived_in.services.blobs())
    dying = Brain(replace(lived_in.services, blobs=lambda: blobs), lived_in.caller)
    with pytest.raises(Killed) as death:
        a_worker(dying).sweep()

    clock = lived_in.services.clock
    assert isinstance(clock, FakeClock)
    clock.move(timedelta(seconds=JOB_LEASE_S))
    a_worker(lived_in).sweep()
    assert lived_in.jobs.show(job.id).attempts == 2
    with lived_in.services.store.snapshot(LOCAL_TENANT) as tx:
        made, *rest = tx.models.listed(ModelRole.SALIENCE, limit=9)
    assert rest == before
    assert made.digest == str(death.value)
    assert made.told["metrics"] == before[0].told["metrics"]


def test_of_too_little_nothing_is_learnt_and_it_is_told_what_is_needed(path: Path) -> None:
    clock = FakeClock()
    clock.move(NOW)
    with a_brain(path, clock=clock) as brain:
        write(brain, count=150)
        result, card = trained(brain, lookback_days=180)
    assert card is None
    assert result["outcome"] == "too_little_data"
    assert (result["settled"], result["settled_needed"]) == (150, 200)
    assert "has 150 memories a month old" in str(result["why"])
    assert "needs 200 with 30 of either" in str(result["why"])


class FrozenSalience:
    """Answers as a test tells it to; a real implementation of the port."""

    features = FEATURES

    def __init__(self, told: float | None) -> None:
        self.told = told
        self.authors: Mapping[str, float] = {}

    def scores(self, rows: Matrix) -> Matrix:
        if self.told is None:
            raise ValueError("it broke")
        return np.full(len(rows), self.told, dtype=np.float32)


def serving(brain: Brain, told: float | None, *, state: ModelState = ModelState.ACTIVE) -> Brain:
    """Let a model serve that always says the same, or breaks."""
    services = brain.services
    card = a_card(1, role=ModelRole.SALIENCE, state=state, features=FEATURES)
    with services.store.begin(LOCAL_TENANT) as tx:
        assert tx.models.add(card)
    models = SalienceModels(
        lambda _: FrozenSalience(told), store=services.store, clock=services.clock
    )
    return Brain(replace(services, saliences=models), brain.caller)


def test_the_active_model_says_how_much_new_memories_matter(brain: Brain) -> None:
    before = stored(brain, "Kettles boil", kind="fact")
    learnt = serving(brain, 0.31)
    after = stored(learnt, "Pots are round", kind="fact")
    revised = learnt.revise.supersede(after, "Pots are square", reason="they were measured")
    said = stored(learnt, "Tea broke", kind="event", importance=0.9)
    saliences = [learnt.get(id_).salience for id_ in (before, after, revised.id or "", said)]
    assert saliences == [0.7, 0.31, 0.31, 0.9]


def test_what_a_model_holds_for_little_begins_in_the_archive(brain: Brain) -> None:
    id_ = stored(serving(brain, 0.1), "Pots are round", kind="fact")
    assert brain.get(id_).state == "archived"


def asked(brain: Brain, **told: object) -> str:
    """Give what an admin reads who asks for it by the operation."""
    return MODEL.render_text(MODEL.handle(brain, ModelRequest.model_validate(told)))


@pytest.mark.requirement("EV-06")
def test_a_model_of_salience_serves_by_force_and_is_taken_back_at_once(brain: Brain) -> None:
    learnt = serving(brain, 0.31, state=ModelState.CANDIDATE)
    id_ = ids.show(ids.MODEL, 1)
    forced = {"op": "promote", "id": id_, "force": True, "reason": "Its AUC is better."}
    for op in ("canary", "promote"):
        with pytest.raises(
            RejectedError, match="which cannot be tried on a share of calls or monitored"
        ) as why:
            asked(learnt, op=op, id=id_)
        assert "promote it with force and a reason" in (why.value.hint or "")

    def salience(text: str) -> float:
        return learnt.get(stored(learnt, text, kind="fact")).salience

    assert asked(learnt, **forced, dry_run=True).startswith("Dry run: nothing was changed.")
    assert salience("Pots are round") == 0.7
    promoted = asked(learnt, **forced)
    assert f"{id_} | salience | active | since" in promoted
    assert "No guard watches it; use retire or rollback to remove it." in promoted
    # In the process that moved it no write waits until it notices.
    assert salience("Pans hang in Porto") == 0.31
    assert asked(learnt, op="guards").startswith("No reranker serves")
    with pytest.raises(RejectedError, match="for salience, is active: no guard looks at it"):
        asked(learnt, op="guards", id=id_)
    assert "Dry run" in asked(learnt, op="retire", id=id_, dry_run=True)
    assert salience("Cups are blue") == 0.31
    assert f"{id_} | salience | retired" in asked(learnt, op="retire", id=id_)
    assert salience("Tea is hot") == 0.7


def test_a_candidate_says_nothing(brain: Brain) -> None:
    learnt = serving(brain, 0.31, state=ModelState.CANDIDATE)
    assert learnt.get(stored(learnt, "Pots are round", kind="fact")).salience == 0.7


@pytest.mark.parametrize(
    ("told", "why"), [(None, "ValueError"), (7.0, "no salience"), (float("nan"), "no salience")]
)
def test_a_model_that_fails_fails_no_write_and_the_rule_scores_visibly(
    brain: Brain, told: float | None, why: str
) -> None:
    learnt = serving(brain, told)
    texts = ("The pot is round", "A jar fell over")
    first, second = (learnt.remember(one, kind="event").items[0] for one in texts)
    assert why in first.warnings[-1]
    assert "rests" in second.warnings[-1]
    assert learnt.get(first.id or "").salience == 0.45


def test_a_model_whose_artifact_is_gone_or_changed_serves_nobody(lived_in: Brain) -> None:
    card = learnt(lived_in)
    with lived_in.services.store.begin(LOCAL_TENANT) as tx:
        tx.models.add(replace(card, id=1, state=ModelState.ACTIVE))
    [good] = lived_in.remember("Kettles boil", kind="event", source_ref="a.txt").items
    assert not good.warnings
    assert lived_in.get(good.id or "").salience > 0.6, "more than the rule gives to any event"
    spoilt = Brain(
        replace(
            lived_in.services,
            saliences=SalienceModels(
                lambda digest: lived_in.services.salience_trainer().load(
                    lived_in.services.blobs().get(digest).replace(b'"rule"', b'"role"')
                ),
                store=lived_in.services.store,
                clock=lived_in.services.clock,
            ),
        ),
        lived_in.caller,
    )
    [outcome] = spoilt.remember("Pans hang in Porto", kind="fact").items
    assert "model_corrupt" in outcome.warnings[-1]
