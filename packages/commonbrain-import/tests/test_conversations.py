"""Conversations: both shapes, lazily, with nothing silent."""

import io
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import pytest
from commonbrain_import.conversations import (
    Conversation,
    parse_turn_time,
)
from commonbrain_import.json_files import NotJson, elements
from commonbrain_import.rows import fitted
from hypothesis import given
from hypothesis import strategies as st
from import_samples import IMPORTERS

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import MessageDetail
from commonbrain.model.limits import SOURCE_REF_CHARS_MAX, TEXT_BYTES_MAX
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.transfer.importer import Content, ImportItem, Unreadable
from commonbrain.transfer.importers.json_lines import as_list

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

SAMPLES = Path(__file__).parent / "samples"


def read(source: Path) -> list[Content]:
    return [piece.content for piece in IMPORTERS["conversations"].read(source)]


def read_text(folder: Path, text: str | bytes, name: str = "chat.json") -> list[Content]:
    source = folder / name
    source.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(source)


def drafts(contents: list[Content]) -> list[Draft]:
    return [content for content in contents if isinstance(content, Draft)]


def sender(draft: Draft) -> str | None:
    assert isinstance(draft.detail, MessageDetail)
    return draft.detail.sender


def subject(draft: Draft) -> str:
    assert draft.thread is not None
    return draft.thread.subject


def test_turns_of_a_sample_are_read_in_the_order_of_its_sessions() -> None:
    contents = read(SAMPLES / "samples.json")
    assert [(c.source_ref, c.body, sender(c)) for c in drafts(contents)] == [
        ("quay-1#D2:1", "I painted the boat.\n[shared a picture: a red boat]", "Ann"),
        ("quay-1#D2:2", "[shared a picture: a wet brush]", "Bo"),
        ("quay-1#D10:1", "The crane works again.", "Bo"),
        ("samples/2#session_1:1", "Who is there?", "Cy"),
    ]
    assert [c for c in contents if isinstance(c, Unreadable)] == [
        Unreadable(where="quay-1#D2:3", reason="It has no text."),
        Unreadable(where="quay-1#session_2", reason="It is not a turn: 'no turn'."),
        Unreadable(where="quay-3", reason="Its conversation has no session_1, session_2, ..."),
    ]


def test_turns_of_a_sample_are_dated_a_second_apart_with_thread_and_project() -> None:
    first, second, third, undated = drafts(read(SAMPLES / "samples.json"))
    begun = datetime(2026, 1, 8, 13, 56, tzinfo=UTC)
    assert (first.occurred_at, second.occurred_at) == (begun, begun + timedelta(seconds=1))
    assert third.occurred_at == datetime(2026, 2, 1, 0, 5, tzinfo=UTC)
    assert first.thread == ThreadRef(
        key="quay-1#session_2", subject="Conversation of Ann and Bo, session 2, 8 January 2026"
    )
    assert (first.kind, first.project, undated.project) == ("message", "quay-1", "samples/2")
    assert undated.occurred_at is None
    assert subject(undated) == "Conversation samples/2, session 1, at dusk"


def test_plain_turns_have_their_text_time_and_session() -> None:
    contents = read(SAMPLES / "plain.json")
    question, answered, until, empty, evening = contents
    assert empty == Unreadable(where="plain#4", reason="It has no text.")
    assert isinstance(question, Draft)
    assert isinstance(answered, Draft)
    assert isinstance(until, Draft)
    assert isinstance(evening, Draft)
    assert (question.source_ref, question.body, sender(question), question.project) == (
        "plain#1",
        "Where does the Heron lie?",
        "user",
        None,
    )
    assert subject(question) == "Conversation plain, 1 March 2026"
    assert answered.body == "At berth four.\n[image]"
    assert answered.occurred_at == datetime(2026, 3, 1, 9, 0, 1, tzinfo=UTC)
    assert (until.source_ref, until.body) == ("plain#m3", "Until when?\n[said at: around noon]")
    assert (evening.source_ref, evening.occurred_at) == (
        "plain#evening:1",
        datetime(2026, 3, 2, 9, 0, tzinfo=UTC),
    )
    assert evening.thread == ThreadRef(
        key="plain#evening", subject="Conversation plain, session evening, 2 March 2026"
    )


def test_json_lines_file_is_read_as_one_conversation() -> None:
    contents = drafts(read(SAMPLES / "plain.jsonl"))
    assert [c.source_ref for c in contents] == ["plain#1", "plain#2", "plain#deck:1"]
    assert {c.occurred_at for c in contents} == {None}


def test_several_conversations_in_a_file_are_numbered(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for form in ["a list", "lines"]:
        with subtests.test(form=form):
            talks = [{"messages": [{"role": "user", "content": f"talk {n}"}]} for n in range(1, 4)]
            lines = "\n".join(json.dumps(talk) for talk in talks)
            contents = read_text(tmp_path, lines if form == "lines" else json.dumps(talks))
            assert [c.source_ref for c in drafts(contents)] == ["chat#1", "chat/2#1", "chat/3#1"]


def test_reading_twice_gives_the_same_contents_with_unique_references(
    subtests: pytest.Subtests,
) -> None:
    for name in ["samples.json", "plain.json", "plain.jsonl"]:
        with subtests.test(name=name):
            once, again = read(SAMPLES / name), read(SAMPLES / name)
            assert once == again
            references = [content.source_ref for content in drafts(once)]
            assert len(set(references)) == len(references)


def test_file_without_a_conversation_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for text in [
        "",
        "  \n",
        "not json",
        "[]",
        "[1, 2]",
        '{"a": 1}',
        '"text"',
        "{",
        b"\xff\xfe[",
        "null",
    ]:
        with subtests.test(text=text), pytest.raises(InvalidInputError, match=r"chat\.json"):
            read_text(tmp_path, text)


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    for source in (tmp_path / "none.json", tmp_path):
        with pytest.raises(InvalidInputError, match="cannot be read"):
            read(source)


def test_truncated_file_is_imported_up_to_the_break_with_a_warning(tmp_path: Path) -> None:
    *before, last = read_text(tmp_path, '[{"text": "one"}, {"text": "two"}, {"te')
    assert [draft.body for draft in drafts(before)] == ["one", "two"]
    assert isinstance(last, Unreadable)
    assert last.where == "chat.json, after record 2"
    assert "nothing after it was read" in last.reason


def test_byte_order_mark_before_the_json_is_ignored(tmp_path: Path) -> None:
    assert len(read_text(tmp_path, b'\xef\xbb\xbf[{"text": "one"}]')) == 1


def test_oversized_turn_is_split_into_parts_with_the_same_reference_and_time(
    tmp_path: Path,
) -> None:
    text = "ä" * (TEXT_BYTES_MAX // 2)
    turns = [{"text": text}, {"text": f"{text} b", "time": "2026-03-02", "speaker": "Ann"}]
    fits, *parts = drafts(read_text(tmp_path, json.dumps([*turns, {"text": "then"}])))
    then = parts.pop()
    assert (fits.body, fits.part) == (text, None)
    assert [one.part for one in parts] == list(range(1, len(parts) + 1))
    assert {(one.source_ref, one.thread, sender(one)) for one in parts} == {
        ("chat#2", fits.thread, "Ann")
    }
    assert {one.occurred_at for one in parts} == {datetime(2026, 3, 2, tzinfo=UTC)}
    assert (then.source_ref, then.part) == ("chat#3", None)


@given(st.lists(st.sampled_from(["word", "ä" * 300, "\n", "\n\n", "x" * 20_000]), min_size=1))
def test_parts_of_a_long_turn_fit_and_contain_every_word(words: list[str]) -> None:
    turn = Conversation(name="chat", title="Talk").add_turn({"text": " ".join(words)})
    bodies = [one.body for one in fitted([turn]) if isinstance(one, Draft)]
    assert "".join("".join(bodies).split()) == "".join(" ".join(words).split())
    assert all(len(body.encode()) <= TEXT_BYTES_MAX for body in bodies)


def test_numbers_of_any_size_are_read(tmp_path: Path) -> None:
    text = f'[{{"text": "big", "id": {2**80}, "time": 1e999999999}}, {{"text": "next"}}]'
    big, _ = drafts(read_text(tmp_path, text))
    assert big.source_ref == f"chat#{2**80}"
    assert big.occurred_at is None


def test_value_that_is_not_a_turn_is_reported_in_the_order_of_the_turns(tmp_path: Path) -> None:
    contents = read_text(tmp_path, '[{"text": "one"}, 7, {"a": 1}, {"text": "two"}]')
    assert [isinstance(content, Draft) for content in contents] == [True, False, False, True]


def test_long_ids_and_names_are_shortened_and_references_stay_unique(tmp_path: Path) -> None:
    ids = ["x" * 600 + end for end in "ab"]
    turns = [{"text": "hello", "speaker": "y" * 300, "id": id_} for id_ in ids]
    one, other = drafts(read_text(tmp_path, json.dumps(turns)))
    assert one.source_ref != other.source_ref
    assert len(one.source_ref or "") == SOURCE_REF_CHARS_MAX
    assert len(sender(one) or "") == 128


class Endless(io.RawIOBase):
    """A list of turns that never ends; counts the bytes that were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.given = 0
        self.pending = b"["

    def seek(self, offset: int, whence: int = 0) -> int:
        del offset, whence
        self.pending, self.given = b"[", 0
        return 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        size = len(view)
        while len(self.pending) < size:
            self.pending += b'{"speaker": "Ann", "text": "and so on"},'
        view[:], self.pending = self.pending[:size], self.pending[size:]
        self.given += size
        return size


def test_endless_list_is_read_only_as_far_as_requested() -> None:
    stream = Endless()
    assert len(list(islice(elements(cast("BinaryIO", stream)), 10_000))) == 10_000
    assert stream.given < 10_000 * 41 + 128 * 1024


def test_first_pieces_of_a_large_file_are_returned_before_it_is_read_completely(
    tmp_path: Path,
) -> None:
    source = tmp_path / "large.json"
    turn = json.dumps({"speaker": "Ann", "text": "x" * 1000})
    source.write_text("[" + ",".join([turn] * 5000) + "]")
    pieces: Iterator[ImportItem] = IMPORTERS["conversations"].read(source)
    early = list(islice(pieces, 10))
    assert early[-1].progress < 0.1
    progress = [piece.progress for piece in (*early, *pieces)]
    assert progress == sorted(progress)
    assert progress[-1] == 1.0


TURNS = st.lists(
    st.dictionaries(
        st.sampled_from(["speaker", "text", "content", "time", "session", "id", "role"]),
        st.one_of(
            st.none(), st.booleans(), st.integers(), st.floats(), st.text("ab 1:", max_size=9)
        ),
    ),
    max_size=8,
)


@given(turns=TURNS)
def test_any_list_of_turns_gives_one_record_per_turn(turns: list[dict[str, object]]) -> None:
    stream = io.BytesIO(json.dumps(turns).encode())
    try:
        assert len(list(elements(stream))) == len(turns)
    except NotJson:  # JSON knows neither infinity nor NaN
        assert "Infinity" in json.dumps(turns) or "NaN" in json.dumps(turns)


@given(time=st.one_of(st.none(), st.integers(), st.floats(), st.text(), st.datetimes().map(str)))
def test_parsed_time_is_in_utc_or_none(time: object) -> None:
    at = parse_turn_time(time)
    assert at is None or at.tzinfo is UTC


def test_turn_after_the_latest_representable_time_is_read(tmp_path: Path) -> None:
    turns = [{"text": "last", "time": "9999-12-31T23:59:59.999Z"}, {"text": "after"}]
    assert len(drafts(read_text(tmp_path, json.dumps(turns)))) == 2


def test_locomo_conversations_are_read_completely() -> None:
    folder = os.environ.get("COMMONBRAIN_DATA")
    source = Path(folder or ".") / "locomo" / "locomo-dev.json"
    if not folder or not source.is_file():
        pytest.skip("COMMONBRAIN_DATA names no folder with locomo/locomo-dev.json")
    samples = json.loads(source.read_text())
    talks = [sample["conversation"] for sample in samples]
    turns = sum(len(as_list(value) or ()) for talk in talks for value in talk.values())
    contents = drafts(read(source))
    assert len(contents) == turns
    assert len({content.source_ref for content in contents}) == turns
    assert all(content.occurred_at for content in contents)
