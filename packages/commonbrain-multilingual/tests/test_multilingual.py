"""The multilingual model: its tokens, vectors and laws; skipped where it is not installed."""

# ruff: noqa: RUF001 texts of many languages

from pathlib import Path
from typing import Any

import pytest

from commonbrain.embeddings.interface import Embedder
from commonbrain.embeddings.local import OVERLAP_TOKENS, WINDOW_TOKENS
from commonbrain.runtime.models import EMBEDDERS, Options, parse_space_name
from tests.embeddings.test_embedders import LoadedOnce

model: Any = pytest.importorskip(
    "commonbrain_multilingual.embedder",
    reason="commonbrain-multilingual is not installed: uv sync --extra multilingual builds it",
)
pytestmark = pytest.mark.part("models")

TOKENS = {
    "The deploy of `src/auth/token.ts` failed with ERR_4012.": (
        "▁The ▁de plo y ▁of ▁` s rc / au th / tok en . ts ` ▁failed ▁with ▁ERR _ 40 12 ."
    ),
    "Die Datenbankverbindung läuft über den Pool.": (
        "▁Die ▁Datenbank verbindung ▁läuft ▁über ▁den ▁Pool ."
    ),
    "La réunion d'équipe est à 14 h 30.": "▁La ▁réunion ▁d ' équipe ▁est ▁à ▁14 ▁h ▁30 .",
    "El servidor se reinicia cada martes.": "▁El ▁servidor ▁se ▁re inici a ▁cada ▁martes .",
    "Сервер перезапускается по вторникам.": "▁Сер вер ▁пере за пуска ется ▁по ▁вторник ам .",
    "数据库迁移在星期三进行。": "▁ 数据库 迁 移 在 星期 三 进行 。",
    "デプロイは水曜日の１０時～１２時です。": "▁ デ プロ イ は 水 曜 日の 10 時 ～ 12 時 です 。",
    "서버는 매주 화요일에 재시작됩니다.": "▁서버 는 ▁매 주 ▁화 요 일에 ▁재 시 작 됩니다 .",
    "يعاد تشغيل الخادم كل ثلاثاء.": "▁ي عاد ▁ تشغيل ▁الخ اد م ▁كل ▁ثلاث اء .",
    "सर्वर हर मंगलवार को फिर से शुरू होता है।": ("▁सर्व र ▁हर ▁मंगलवार ▁को ▁फिर ▁से ▁शुरू ▁होता ▁है ।"),
    "เซิร์ฟเวอร์จะรีสตาร์ททุกวันอังคาร": "▁เ ซิ ร์ ฟ เวอร์ จะ รี สตาร์ ท ทุก วันอังคาร",
    "Sunucu her salı yeniden başlatılır.": "▁Sun ucu ▁her ▁sa lı ▁yeniden ▁başlat ılır .",
}
"""As the program that published the weights cuts them."""
KETTLE = "The kettle stands on the upper shelf."
PORT = "Postgres listens on port 6543."


class TestMultilingualEmbedder(LoadedOnce):
    def make(self, model: Path) -> Embedder:  # noqa: ARG002
        return EMBEDDERS["multilingual"](Options(threads=1))


@pytest.fixture(scope="module")
def tokenizer() -> Any:  # noqa: ANN401 its package may be absent
    read = model.UnigramTokenizer.read(model.PIECES_PATH, model.SCORES_PATH)
    read.enable_truncation(WINDOW_TOKENS, stride=OVERLAP_TOKENS)
    return read


@pytest.fixture(scope="module")
def pieces() -> list[str]:
    return model.PIECES_PATH.read_text("utf-8").split("\n")


@pytest.mark.parametrize("text", TOKENS)
def test_tokens_are_those_the_model_was_trained_with(
    text: str,
    tokenizer: Any,  # noqa: ANN401 its package may be absent
    pieces: list[str],
) -> None:
    ids: list[int] = tokenizer.ids(text)

    assert " ".join(pieces[number] for number in ids) == TOKENS[text]


def test_text_holds_no_control_token_and_unknown_characters_are_one(tokenizer: Any) -> None:  # noqa: ANN401
    begin, *inside, end = tokenizer.encode("query:", "</s> <s> <mask> \ue123\ue124 x").ids

    assert (begin, end) == (0, 2)
    assert not {0, 1, 2} & {*inside}
    assert inside.count(3) == 1


def test_windows_of_a_long_text_overlap_and_each_is_a_passage(tokenizer: Any) -> None:  # noqa: ANN401
    first = tokenizer.encode("again " * 500)

    windows = [first, *first.overflowing]
    assert {len(one.ids) for one in windows[:-1]} == {WINDOW_TOKENS}
    assert {one.ids[:3] for one in windows} == {first.ids[:3]}
    fresh = WINDOW_TOKENS - 4 - OVERLAP_TOKENS
    assert sum(len(one.ids) - 4 for one in windows) == 500 + OVERLAP_TOKENS * (len(windows) - 1)
    assert len(windows) == -(-(500 - OVERLAP_TOKENS) // fresh)


def test_vectors_of_a_text_and_of_a_question_have_the_recorded_values() -> None:
    embedder = EMBEDDERS["multilingual"](Options(threads=1))

    [[passage]] = embedder.passages(
        ["Die Staging-Datenbank zog im März auf Postgres 16 um, weil Vacuum auf 14 zu langsam war."]
    )
    query = embedder.query("Warum zog die Datenbank um?")

    assert passage[:4].tolist() == pytest.approx([0.0010, 0.0080, 0.0334, -0.0179], abs=0.002)
    assert query[:4].tolist() == pytest.approx([0.0420, -0.0077, -0.0152, -0.0292], abs=0.002)


@pytest.mark.requirement("DO-32")
@pytest.mark.parametrize(
    "question",
    [
        "Auf welchem Port lauscht die Datenbank?",
        "¿En qué puerto escucha la base de datos?",
        "数据库监听哪个端口？",
        "На каком порту слушает база данных?",
    ],
)
def test_question_finds_a_memory_in_another_language(question: str) -> None:
    embedder = EMBEDDERS["multilingual"](Options(threads=1))
    kettle, port = (rows[0] for rows in embedder.passages([KETTLE, PORT]))

    query = embedder.query(question)

    assert query @ port >= embedder.space.relevance_threshold > query @ kettle


def test_core_knows_the_space_by_its_name_and_dimensions() -> None:
    named = parse_space_name(model.SPACE.name)

    assert named is not None
    assert (named.family, named.dimensions) == ("multilingual", model.SPACE.dimensions)
