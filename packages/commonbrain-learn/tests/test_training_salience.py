"""Salience models learn from the use of memories, and are evaluated on later ones."""

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from commonbrain_learn.operations import MODEL, ModelRequest
from commonbrain_learn.salience_model import LearnedSalience, load_salience
from commonbrain_learn.usefulness import FEATURES
from commonbrain_models.guarded_model import ModelLimits
from ranking_helpers import with_salience

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Matrix
from commonbrain.model import ids
from commonbrain.model.errors import RejectedError
from commonbrain.model.kinds import KINDS, Kind
from commonbrain.model.memory import Memory
from commonbrain.model.model_card import ModelCard, ModelRole, ModelState
from commonbrain.model.query import Feedback, FeedbackMark
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.testing.builders import NOON, FakeClock, a_brain, a_memory
from commonbrain.text.salience import salience
from tests.asking import stored
from tests.processes import TIMEOUT_S
from tests.storage.learning_contract import a_card, a_trace
from tests.working import a_worker

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
            feedback = Feedback(
                trace_id=trace.id,
                memory_id=memory.id,
                mark=FeedbackMark.USED,
                agent="bo",
                session="s1",
                at=trace.asked_at,
            )
            tx.recall_log.mark([feedback])


@pytest.fixture(scope="module")
def lived_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brain]:
    clock = FakeClock()
    clock.move(NOW)
    with a_brain(tmp_path_factory.mktemp("lived") / "brain.db", clock=clock) as brain:
        write(brain)
        yield brain


def salience_cards(brain: Brain) -> list[ModelCard]:
    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        return list(tx.models.listed(ModelRole.SALIENCE, limit=9))


def trained(brain: Brain, **given: object) -> tuple[dict[str, object], ModelCard | None]:
    """Train, and give the job's result and its card."""
    job = brain.jobs.run("train_salience", given)
    a_worker(brain).sweep()
    done = brain.jobs.show(job.id)
    assert done.state == "done", done
    result = dict(done.result or {})
    made = [
        card
        for card in salience_cards(brain)
        if ids.show(ids.MODEL, card.id) == result.get("model")
    ]
    return result, made[0] if made else None


def learnt(brain: Brain) -> ModelCard:
    """Give the latest model, trained now if no earlier test did."""
    cards = salience_cards(brain)
    card = cards[0] if cards else trained(brain)[1]
    assert card is not None
    return card


@pytest.mark.requirement("JB-02")
def test_trained_model_predicts_use_better_than_the_rule(lived_in: Brain) -> None:
    result, card = trained(lived_in)
    assert card is not None
    assert result["outcome"] == "better"
    assert (card.role, card.state, card.parent) == (ModelRole.SALIENCE, ModelState.CANDIDATE, None)
    auc = cast("Mapping[str, Mapping[str, float]]", card.told["metrics"])["auc"]
    assert auc["rule"] < 0.5
    assert auc["learnt"] > 0.8
    assert 0 < auc["low"] < auc["high"]
    artifact = lived_in.services.blobs().get(card.digest)
    model = json.loads(artifact)
    assert model["booster"].startswith("tree\n")
    assert b"ettle" not in artifact, "no word of a memory is in a model"
    assert set(model["authors"]) == {"ann", "bob"}


def test_training_on_too_few_memories_reports_what_is_needed(path: Path) -> None:
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


class FrozenSalience(LearnedSalience):
    """Gives one score, or breaks."""

    features = FEATURES
    authors: Mapping[str, float] = {}

    def __init__(self, score: float | None) -> None:
        self.score = score

    def scores(self, rows: Matrix) -> Matrix:
        if self.score is None:
            raise ValueError("it broke")
        return np.full(len(rows), self.score, dtype=np.float32)


def serving(brain: Brain, score: float | None, *, state: ModelState = ModelState.ACTIVE) -> Brain:
    """Let a model serve that always gives the same score, or breaks."""
    services = brain.services
    card = a_card(1, role=ModelRole.SALIENCE, state=state, features=FEATURES)
    with services.store.begin(LOCAL_TENANT) as tx:
        assert tx.models.add(card)
    limits = ModelLimits(limit_ms=TIMEOUT_S * 1000, failures=1, cooldown_ms=30_000.0)
    return with_salience(brain, lambda _: FrozenSalience(score), limits=limits)


def test_active_model_sets_the_salience_of_new_memories(brain: Brain) -> None:
    before = stored(brain, "Kettles boil", kind="fact")
    with_model = serving(brain, 0.31)
    after = stored(with_model, "Pots are round", kind="fact")
    revised = with_model.revise.supersede(after, "Pots are square", reason="they were measured")
    with_importance = stored(with_model, "Tea broke", kind="event", importance=0.9)
    saliences = [
        with_model.get(id_).salience for id_ in (before, after, revised.id or "", with_importance)
    ]
    assert saliences == [salience(Kind.FACT, "Kettles boil"), 0.31, 0.31, 0.9]


def test_memory_of_low_salience_is_archived_at_once(brain: Brain) -> None:
    id_ = stored(serving(brain, 0.1), "Pots are round", kind="fact")
    assert brain.get(id_).state == "archived"


def output(brain: Brain, **arguments: object) -> str:
    """Call the operation as an admin; give its text."""
    return MODEL.render_text(MODEL.handle(brain, ModelRequest.model_validate(arguments)))


@pytest.mark.requirement("EV-06")
def test_forced_salience_model_serves_and_is_retired_at_once(brain: Brain) -> None:
    with_model = serving(brain, 0.31, state=ModelState.CANDIDATE)
    id_ = ids.show(ids.MODEL, 1)
    forced = {"op": "promote", "id": id_, "force": True, "reason": "Its AUC is better."}
    for op in ("canary", "promote"):
        with pytest.raises(
            RejectedError, match="which cannot be tried on a share of calls or monitored"
        ) as why:
            output(with_model, op=op, id=id_)
        assert "promote it with force and a reason" in (why.value.hint or "")

    def stored_salience(text: str) -> float:
        return with_model.get(stored(with_model, text, kind="fact")).salience

    assert output(with_model, **forced, dry_run=True).startswith("Dry run: nothing was changed.")
    assert stored_salience("Pots are round") == salience(Kind.FACT, "Pots are round")
    promoted = output(with_model, **forced)
    assert f"{id_} | salience | active | since" in promoted
    assert "No guard watches it; use retire or rollback to remove it." in promoted
    # In the process that moved it no write waits until it notices.
    assert stored_salience("Pans hang in Porto") == 0.31
    assert output(with_model, op="guards").startswith("No reranker serves")
    with pytest.raises(RejectedError, match="for salience, is active: no guard looks at it"):
        output(with_model, op="guards", id=id_)
    assert "Dry run" in output(with_model, op="retire", id=id_, dry_run=True)
    assert stored_salience("Cups are blue") == 0.31
    assert f"{id_} | salience | retired" in output(with_model, op="retire", id=id_)
    assert stored_salience("Tea is hot") == salience(Kind.FACT, "Tea is hot")


def test_candidate_model_does_not_set_salience(brain: Brain) -> None:
    with_model = serving(brain, 0.31, state=ModelState.CANDIDATE)
    assert with_model.get(stored(with_model, "Pots are round", kind="fact")).salience == salience(
        Kind.FACT, "Pots are round"
    )


@pytest.mark.parametrize(
    ("score", "why"), [(None, "ValueError"), (7.0, "no salience"), (float("nan"), "no salience")]
)
def test_failing_salience_model_fails_no_write_and_the_default_rule_applies(
    brain: Brain, score: float | None, why: str
) -> None:
    with_model = serving(brain, score)
    texts = ("The pot is round", "A jar fell over")
    first, second = (with_model.remember(one, kind="event").items[0] for one in texts)
    assert why in first.warnings[-1]
    assert "rests" in second.warnings[-1]
    assert with_model.get(first.id or "").salience == salience(Kind.EVENT, texts[0])


def test_model_of_a_changed_artifact_does_not_serve(lived_in: Brain) -> None:
    card = learnt(lived_in)
    with lived_in.services.store.begin(LOCAL_TENANT) as tx:
        tx.models.add(replace(card, id=1, state=ModelState.ACTIVE))
    [good] = lived_in.remember("Kettles boil", kind="event", source_ref="a.txt").items
    assert not good.warnings
    assert lived_in.get(good.id or "").salience > KINDS[Kind.EVENT].salience
    get = lived_in.services.blobs().get
    with_broken_model = with_salience(
        lived_in, lambda digest: load_salience(get(digest).replace(b'"rule"', b'"role"'))
    )
    [outcome] = with_broken_model.remember("Pans hang in Porto", kind="fact").items
    assert "model_corrupt" in outcome.warnings[-1]
