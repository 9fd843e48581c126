"""A cross-encoder orders the best candidates of a recall, and never keeps it from answering."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from commonbrain_models.cross_encoding import CrossEncoding
from commonbrain_models.onnx_cross_encoder import OnnxCrossEncoder

import commonbrain
from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError, UnavailableError
from commonbrain.model.model_card import CROSS_ENCODER
from commonbrain.retrieval.plan import RetrievalOverrides
from commonbrain.retrieval.recall import Recall
from commonbrain.testing.builders import FakeClock, a_brain
from tests.asking import stored
from tests.onnx_models import save_cross_encoder

ASKED = "Where does the kettle stand?"
FACTS = {
    "shelf": "The kettle stands on the upper shelf.",
    "litres": "The kettle holds two litres of water.",
    "Porto": "The kettle was bought in Porto by Ann.",
    "noon": "The kettle whistles every day at noon.",
}


class Preferring(OnnxCrossEncoder):
    """Prefers texts with one word, and keeps what it was asked."""

    def __init__(
        self,
        word: str,
        *,
        does: Callable[[], object] = bool,
        loads: Callable[[], object] = bool,
    ) -> None:
        super().__init__(Path("preferring"))
        self.word = word
        self.calls = list[Sequence[str]]()
        self.does = does
        self.loads = loads

    def load(self) -> None:
        self.loads()

    def scores(
        self, query: str, texts: Sequence[str], *, is_over: Callable[[], bool] = lambda: False
    ) -> list[float]:
        assert query
        self.calls.append(texts)
        self.does()
        if is_over():
            raise UnavailableError("No one waits.")
        return [0.9 if self.word in text else 0.1 for text in texts]


def served_by(brain: Brain, model: Preferring, **limits: Any) -> Brain:  # noqa: ANN401 those of CrossEncoding
    """Return the same brain with a cross-encoder that has time enough."""
    options = {"timeout_s": 30, **limits}
    encoding = CrossEncoding(model, clock=brain.services.clock, **options)
    return Brain(replace(brain.services, reranker=encoding), brain.caller)


@pytest.fixture
def brain(path: Path, clock: FakeClock) -> Iterator[Brain]:
    with a_brain(path, clock=clock) as plain:
        for fact in FACTS.values():
            stored(plain, fact, kind="fact")
        yield plain


def headlines(brain: Brain) -> list[str | None]:
    return [one.headline for one in brain.recall(ASKED, max_items=12).items]


@pytest.mark.parametrize("word", FACTS)
def test_memory_preferred_by_the_cross_encoder_comes_first(brain: Brain, word: str) -> None:
    before = headlines(brain)

    after = headlines(served_by(brain, Preferring(word)))

    assert len(before) == len(FACTS)
    # The order of the others stays.
    assert after == [FACTS[word], *(one for one in before if one != FACTS[word])]


def test_cross_encoder_does_not_change_the_score_of_each_position(brain: Brain) -> None:
    fixed = [one.score for one in brain.recall(ASKED).items]

    assert [one.score for one in served_by(brain, Preferring("noon")).recall(ASKED).items] == fixed


def test_cross_encoder_scores_only_the_configured_number_of_candidates(brain: Brain) -> None:
    model = Preferring("noon")

    served_by(brain, model, candidates=2).recall(ASKED)

    [texts] = model.calls
    assert list(texts) == headlines(brain)[:2]


def test_lists_and_proactive_recalls_are_not_scored(brain: Brain) -> None:
    model = Preferring("noon")
    served = served_by(brain, model)

    served.recall()
    served.recall(ASKED, proactive=True)

    assert model.calls == []


def test_evaluation_can_leave_out_the_cross_encoder(brain: Brain) -> None:
    model = Preferring("noon")
    served = served_by(brain, model)

    Recall(
        served.services,
        served.caller,
        overrides=RetrievalOverrides(without=frozenset({CROSS_ENCODER})),
    )(ASKED)

    assert model.calls == []


def test_skill_stays_first_after_cross_encoding(brain: Brain) -> None:
    rule = "Fill the kettle to the mark before you boil it."
    stored(brain, rule, kind="rule", skill={"name": "boil", "keywords": ["kettle"]})

    first, second, *_ = headlines(served_by(brain, Preferring("noon")))

    assert (first, second) == (rule, FACTS["noon"])


def crash() -> None:
    raise IndexError("out of range")


def fail() -> None:
    raise UnavailableError("/secret/path/model.onnx is damaged.", code="embedder_down")


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (Preferring("noon", does=crash), "failed with IndexError"),
        (Preferring("noon", does=fail), "does not work; `brain doctor` says why"),
        (Preferring("noon", loads=crash), "failed with IndexError"),
        (Preferring("noon", loads=fail), "does not work; `brain doctor` says why"),
    ],
)
def test_recall_answers_without_a_cross_encoder_that_fails(
    brain: Brain, broken: Preferring, reason: str
) -> None:
    matches = served_by(brain, broken).recall(ASKED, max_items=12)

    assert [one.headline for one in matches.items] == headlines(brain)
    assert matches.degraded == (f"cross_encoder: onnx:preferring {reason}",)


def test_slow_cross_encoder_is_skipped_and_then_paused(brain: Brain) -> None:
    until = Event()
    model = Preferring("noon", does=lambda: until.wait(30))
    served = served_by(brain, model, timeout_s=0.01)

    degraded = [served.recall(ASKED).degraded for _ in range(4)]
    until.set()

    slow = ("cross_encoder: onnx:preferring took over 10 ms",)
    paused = ("cross_encoder: onnx:preferring rests after 3 failures in a row",)
    assert degraded == [slow, slow, slow, paused]


def test_recall_deadline_limits_the_cross_encoder(brain: Brain) -> None:
    until = Event()
    served = served_by(brain, Preferring("noon", does=lambda: until.wait(30)))
    assert isinstance(served.services.reranker, CrossEncoding)
    # It is loaded by now.
    served.services.reranker.ready(timeout_ms=None)

    matches = served.recall(ASKED, deadline_ms=1, max_items=12)
    until.set()

    assert {one.headline for one in matches.items} == {*headlines(brain)}
    assert any(one.startswith("cross_encoder: ") for one in matches.degraded)


def test_failure_of_the_cross_encoder_is_not_attributed_to_a_learned_model(brain: Brain) -> None:
    served = served_by(brain, Preferring("noon", does=crash))

    matches = served.recall(ASKED)

    assert not any(one.startswith("reranker") for one in matches.degraded)


@pytest.mark.requirement("DO-12")
def test_reranker_on_disk_is_selected_by_its_folder_and_named_in_the_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_cross_encoder(tmp_path / "my-reranker")
    monkeypatch.setenv("COMMONBRAIN_RERANKER", f"onnx:{folder}")
    monkeypatch.setenv("COMMONBRAIN_RERANKER_TIMEOUT_S", "30")
    with commonbrain.open(tmp_path / "brain.db") as brain:
        brain.remember("Ann lives in Lisbon.", kind="fact")
        brain.remember("The vault code is kept by Miriam Okafor.", kind="fact")
        matches, status, diagnosis = brain.recall("Who lives?"), brain.status(), brain.doctor()

    assert matches.degraded == ()
    assert matches.items[0].headline == "Ann lives in Lisbon."
    assert status.reranker == "onnx:my-reranker"
    assert "onnx:my-reranker answers" in [one.detail for one in diagnosis.findings]


def test_doctor_reports_a_missing_reranker_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMMONBRAIN_RERANKER", f"onnx:{tmp_path / 'none'}")
    with commonbrain.open(tmp_path / "brain.db") as brain:
        brain.remember("Ann lives in Lisbon.", kind="fact")
        matches, diagnosis = brain.recall("Who lives?"), brain.doctor()

    assert matches.degraded == ("cross_encoder: onnx:none does not work; `brain doctor` says why",)
    [broken] = [one for one in diagnosis.findings if not one.is_sound]
    assert broken.check == "reranker"
    assert f"There is no model at {tmp_path / 'none'}" in broken.detail


def test_unknown_reranker_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMMONBRAIN_RERANKER", "bge")
    with pytest.raises(InvalidInputError, match="There is no reranker 'bge'"):
        commonbrain.open(tmp_path / "brain.db")
