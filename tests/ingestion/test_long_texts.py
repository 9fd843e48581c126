"""A very long text is embedded in part, and one that is stored already is not embedded again."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Matrix
from commonbrain.embeddings.local import MiniLmEmbedder
from commonbrain.ingestion.embedding import EmbedPending
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model.errors import UnavailableError
from commonbrain.model.limits import EMBED_BATCH_BYTES, EMBEDDED_WINDOWS_MAX, TEXT_BYTES_MAX
from commonbrain.model.memory import Draft
from commonbrain.testing.builders import OVERLAP_WORDS, WINDOW_WORDS, WordHashEmbedder, a_brain
from tests.asking import FailingEmbedder, remember_one, stored

WORDS_A_WINDOW = WINDOW_WORDS - OVERLAP_WORDS
FACT = "The nightly build runs at three."


class RecordingEmbedder(WordHashEmbedder):
    """Records the texts that it embeds."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        self.texts += texts
        return super().passages(texts)


@pytest.fixture
def embedder() -> RecordingEmbedder:
    return RecordingEmbedder()


def a_text(windows: int) -> str:
    """Return an event whose last word is `vault`, in so many windows."""
    count = WORDS_A_WINDOW * windows
    return " ".join(["a"] * (count - 1)) + " vault"


@pytest.mark.requirement("WP-51")
def test_reply_reports_how_much_of_a_very_long_text_is_embedded(path: Path) -> None:
    text = a_text(EMBEDDED_WINDOWS_MAX + 6)
    with a_brain(path) as brain:
        outcome = remember_one(brain, text, kind="event")

        assert outcome.status is ItemStatus.STORED
        assert not outcome.embedding_pending
        [warning] = outcome.warnings
        assert warning.startswith("The embedding model reads this text in 70 windows. The first 64")
        assert [item.id for item in brain.recall("vault").items] == [outcome.id]


@pytest.mark.requirement("WP-51")
def test_text_within_the_window_limit_has_no_warning(path: Path) -> None:
    with a_brain(path) as brain:
        assert remember_one(brain, a_text(EMBEDDED_WINDOWS_MAX), kind="event").warnings == ()


def test_longest_prose_and_logs_are_embedded_whole(subtests: pytest.Subtests) -> None:
    for sentence in (
        "The nightly build runs at three, because the team in Europe needs its results. ",
        "Die nächtliche Erstellung läuft um drei Uhr, weil das Team die Ergebnisse benötigt. ",
        "Ночная сборка запускается в три часа, потому что команде нужны её результаты. ",
        "야간 빌드는 유럽 팀이 결과를 필요로 하기 때문에 새벽 세 시에 실행됩니다. ",
        "我们每天凌晨三点运行夜间构建，因为欧洲团队需要结果。",  # noqa: RUF001 as Chinese is written
        "2026-11-26T19:04:11.113Z WARN [pool-3] c.e.s.Handler - req=1ee7 took 17ms status=502\n",
    ):
        with subtests.test(sentence=sentence):
            times = TEXT_BYTES_MAX // len(sentence.encode()) + 1
            text = (sentence * times).encode()[:TEXT_BYTES_MAX].decode(errors="ignore")

            assert len(MiniLmEmbedder().windows(text)) <= EMBEDDED_WINDOWS_MAX


def test_text_already_stored_verbatim_is_not_embedded_again(
    path: Path, embedder: RecordingEmbedder
) -> None:
    with a_brain(path, embedder=embedder) as brain:
        stored(brain, FACT, kind="fact")
        before = [*embedder.texts]

        [again] = brain.remember(FACT, kind="fact").items
        batch = brain.remember([Draft(body=FACT, kind="fact"), Draft(body=FACT, kind="fact")])
        agent = brain.acting_as(agent="ben").remember(FACT, kind="fact")

        outcomes = [again, *batch.items, *agent.items]
        assert [one.status for one in outcomes] == [ItemStatus.EXISTS] * 4
        assert embedder.texts == before == [f"{FACT}"]


def test_imported_text_already_stored_verbatim_is_not_embedded_again(
    path: Path, tmp_path: Path, embedder: RecordingEmbedder
) -> None:
    notes = tmp_path / "notes.md"
    notes.write_text(f"- {FACT}\n- The deploy takes an hour on Fridays.\n")
    with a_brain(path, embedder=embedder) as brain:
        brain.import_("markdown", notes)
        before = [*embedder.texts]

        report = brain.import_("markdown", notes)

        assert (report.stored, embedder.texts) == (0, before)


def test_chunks_already_stored_verbatim_are_not_embedded_again(
    path: Path, embedder: RecordingEmbedder
) -> None:
    chunks = "\n\n".join(f"Machine {n} stands in the hall of plant {n}." for n in range(4))
    with a_brain(path, embedder=embedder) as brain:
        brain.remember(chunks, chunks=True)
        before = [*embedder.texts]

        reply = brain.remember(chunks, chunks=True)

        assert {one.status for one in reply.items} == {ItemStatus.EXISTS}
        assert embedder.texts == before


def test_pending_texts_are_embedded_a_limited_number_of_bytes_at_a_time(path: Path) -> None:
    embedder = FailingEmbedder()
    size = TEXT_BYTES_MAX - 100
    with a_brain(path, embedder=embedder) as brain:
        embedder.is_down = True
        leave(brain, *(f"{n} {'ab ' * (size // 3)}" for n in range(6)))
        embedder.is_down = False
        embed = EmbedPending(brain.services, brain.caller)

        counts = [embed().count for _ in range(3)]

        at_once = EMBED_BATCH_BYTES // size
        assert counts == [at_once, 6 - at_once, 0]


def test_long_texts_that_the_embedder_refuses_do_not_delay_others(path: Path) -> None:
    embedder = FailingEmbedder()
    with a_brain(path, embedder=embedder) as brain:
        embedder.is_down = True
        leave(brain, *(f"{n} cheese {'ab ' * 5000}" for n in range(9)), FACT)

    with a_brain(path, embedder=FussyEmbedder()) as brain:
        assert (brain.embed_pending().count, brain.status().embedding_pending) == (1, 9)


class FussyEmbedder(WordHashEmbedder):
    """Refuses texts about cheese."""

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        if any("cheese" in text for text in texts):
            raise UnavailableError("No cheese.", code="embedder_down")
        return super().passages(texts)


def leave(brain: Brain, *texts: str) -> None:
    for text in texts:
        assert remember_one(brain, text, kind="event").embedding_pending
