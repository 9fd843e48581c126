import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from commonbrain_evals.retrieval.corpora import Corpus
from commonbrain_evals.retrieval.datasets import DATASETS

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.memory import Draft
from tests import eval_samples as samples


def read(name: str, path: Path) -> list[Corpus]:
    dataset = DATASETS[name]
    return list(dataset.read(dataset.files(path)))


def drafts(corpus: Corpus) -> list[Draft]:
    return [draft for draft in corpus.drafts() if isinstance(draft, Draft)]


def test_locomo_gives_one_corpus_per_conversation_with_the_turns_of_the_importer(
    tmp_path: Path,
) -> None:
    one, two = read("locomo", samples.locomo(tmp_path / "l.json"))

    assert (one.name, two.name) == ("one", "two")
    assert one.ends_at == datetime(2023, 5, 21, 9, 0, tzinfo=UTC)
    first, *_, last = drafts(one)
    assert first.source_ref == "one#D1:1"
    assert first.occurred_at == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert isinstance(first.detail, MessageDetail)
    assert first.detail.sender == "Ann"
    assert first.thread != last.thread


def test_locomo_reads_every_form_of_evidence_and_unanswerable_questions(
    tmp_path: Path,
) -> None:
    single, several, adversarial, bare = read("locomo", samples.locomo(tmp_path / "l.json"))[
        0
    ].questions

    assert single.gold == {"one#D1:1": 1}
    assert single.category == "single-hop"
    assert several.gold == {"one#D1:2": 1, "one#D2:1": 1}
    assert adversarial.gold
    assert not adversarial.is_answerable
    assert not bare.gold


def test_beam_messages_are_cleaned_and_dated_and_evidence_is_read_under_any_key(
    tmp_path: Path,
) -> None:
    [chat] = read("beam", samples.beam(tmp_path))

    messages = drafts(chat)
    assert messages[0].body == "My port is 8080"
    assert [draft.source_ref for draft in messages] == ["a-chat#0", "a-chat#1", "a-chat#2"]
    assert messages[0].thread == messages[1].thread != messages[2].thread
    assert messages[0].occurred_at is not None
    assert messages[1].occurred_at is not None
    assert messages[0].occurred_at < messages[1].occurred_at
    update, hopeless = chat.questions
    assert update.gold == {"a-chat#0": 1, "a-chat#2": 1}
    assert not hopeless.is_answerable
    assert chat.ends_at.date().isoformat() == "2024-04-03"


def test_beir_has_judged_queries_and_whole_documents(tmp_path: Path) -> None:
    [corpus] = read("beir", samples.beir(tmp_path))

    [question] = corpus.questions
    assert question.gold == {"d2": 1}
    first, second = drafts(corpus)
    assert first.body == "Moths\nMoths steer by the moon."
    assert second.body == "Bees dance to tell where nectar is."
    assert first.kind == Kind.EPISODE


def test_longmemeval_gives_each_question_its_own_history_and_its_date(tmp_path: Path) -> None:
    one, hopeless = read("longmemeval", samples.longmemeval(tmp_path / "l.json"))

    [question] = one.questions
    assert question.gold == {"q1#s1:1": 1}
    assert question.asked_at == one.ends_at == datetime(2023, 5, 30, 22, 10, tzinfo=UTC)
    assert [draft.source_ref for draft in drafts(one)] == ["q1#s1:1", "q1#s1:2", "q1#s2:1"]
    assert len({draft.thread for draft in drafts(one)}) == 2
    assert hopeless.questions[0].category == "abstention"
    assert not hopeless.questions[0].is_answerable


def test_own_memories_have_their_kind_author_and_thread(tmp_path: Path) -> None:
    [corpus] = read("own", samples.own(tmp_path))

    fact, message = drafts(corpus)
    assert fact.kind == Kind.FACT
    assert fact.people == ("Ann",)
    assert isinstance(message.detail, MessageDetail)
    assert message.detail.sender == "Bob"
    assert [question.is_answerable for question in corpus.questions] == [True, False]


def test_missing_path_is_refused_with_the_expected_files(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for name in DATASETS:
        with subtests.test(name=name):
            with pytest.raises(InvalidInputError) as caught:
                read(name, tmp_path / "nowhere")

            assert "nowhere" in caught.value.message
            assert DATASETS[name].expects in caught.value.hint


def locomo_without_questions(folder: Path) -> Path:
    path = samples.locomo(folder / "broken.json")
    rows = json.loads(path.read_text("utf-8"))
    del rows[1]["qa"]
    return samples.write_json(path, rows)


def beam_without_content(folder: Path) -> Path:
    chat: dict[str, Any] = {
        "chat": [{"turns": [[{"role": "user", "id": 1}]]}],
        "probing_questions": {},
    }
    samples.write_json(folder / "broken.json", chat)
    return folder


def beam_with_an_odd_date(folder: Path) -> Path:
    message = {"role": "user", "id": 7, "content": "x", "time_anchor": "yesterday"}
    chat: dict[str, Any] = {"chat": [{"turns": [[message]]}], "probing_questions": {}}
    samples.write_json(folder / "broken.json", chat)
    return folder


def beir_with_a_broken_line(folder: Path) -> Path:
    samples.beir(folder)
    with (folder / "queries.jsonl").open("a", encoding="utf-8") as stream:
        stream.write("{]\n")
    return folder


def beir_that_judges_the_unknown(folder: Path) -> Path:
    samples.beir(folder)
    with (folder / "qrels.tsv").open("a", encoding="utf-8") as stream:
        stream.write("9\td1\t1\n")
    return folder


def longmemeval_with_a_date_short(folder: Path) -> Path:
    path = samples.longmemeval(folder / "broken.json")
    rows = json.loads(path.read_text("utf-8"))
    rows[0]["haystack_dates"].pop()
    return samples.write_json(path, rows)


def own_with_gold_that_is_not_there(folder: Path) -> Path:
    samples.own(folder)
    row = {"id": "3", "question": "Who?", "gold": ["m9"]}
    samples.write_lines(folder / "questions.jsonl", row)
    return folder


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("locomo", locomo_without_questions, "broken.json, element 2: qa"),
        ("beam", beam_without_content, "broken.json: chat.0.turns.0.0.content"),
        ("beam", beam_with_an_odd_date, "broken.json, message 7: time_anchor"),
        ("beir", beir_with_a_broken_line, "queries.jsonl, line 3"),
        ("beir", beir_that_judges_the_unknown, "no query '9'"),
        ("longmemeval", longmemeval_with_a_date_short, "q1: haystack"),
        ("own", own_with_gold_that_is_not_there, "3: there is no memory 'm9'"),
    ],
)
def test_error_in_a_data_set_names_its_location(
    name: str, make: Callable[[Path], Path], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read(name, make(tmp_path))

    assert message in caught.value.message


def test_file_with_invalid_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("[{", "utf-8")

    for name in ("locomo", "beam", "longmemeval"):
        with pytest.raises(InvalidInputError, match=r"x\.json.* not JSON"):
            read(name, path)
