"""Sources that are odd, damaged or made to harm: their memories are read, nothing else happens."""

import io
import json
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from time import process_time
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from commonbrain_import.json_files import BoundedJson, NotJson, elements
from hypothesis import given
from hypothesis import strategies as st
from import_samples import IMPORTERS

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.memory import Draft
from commonbrain.transfer.importer import Content, OmittedContent, SourceRelation, Unreadable


def read(format_: str, source: Path) -> Sequence[Content]:
    return [one.content for one in IMPORTERS[format_].read(source)]


def drafts(contents: Sequence[Content]) -> list[Draft]:
    return [one for one in contents if isinstance(one, Draft)]


def bodies(contents: Sequence[Content]) -> list[str]:
    return [one.body for one in drafts(contents)]


def reasons(contents: Sequence[Content]) -> list[str]:
    return [one.reason for one in contents if isinstance(one, Unreadable)]


def written(folder: Path, name: str, value: object) -> Path:
    path = folder / name
    path.write_text(json.dumps(value))
    return path


def test_fact_that_ended_before_it_was_recorded_is_imported_as_expired(tmp_path: Path) -> None:
    edge = {
        "uuid": "e1",
        "fact": "Ada leads the billing team.",
        "created_at": "2025-06-01T00:00:00Z",
        "invalid_at": "2020-01-01T00:00:00Z",
    }
    code = {
        "id": "m1",
        "memory": "The discount code SPRING is valid in the shop.",
        "expiration_date": "2025-01-01",
        "updated_at": "2025-02-01T00:00:00Z",
    }
    ended = [
        *drafts(read("graphiti", written(tmp_path, "graph.json", {"edges": [edge]}))),
        *drafts(read("mem0", written(tmp_path, "mem0.json", [code]))),
    ]
    assert [one.expires_at.year for one in ended if one.expires_at] == [2020, 2025]
    assert all(
        one.occurred_at and one.occurred_at < one.expires_at for one in ended if one.expires_at
    )


@pytest.mark.parametrize(
    ("front_matter", "reason"),
    [
        pytest.param(
            "tags:\n"
            "  - &a [x, x, x, x, x, x, x, x, x]\n"
            + "".join(
                f"  - &{new} [{', '.join([f'*{old}'] * 9)}]\n"
                for old, new in zip("abcdefgh", "bcdefghi", strict=True)
            ),
            "Its front matter has anchors or aliases.",
            id="aliases",
        ),
        pytest.param(
            "log: |\n" + "  We decided to use Postgres in the shop.\n" * 2000,
            "Its front matter has more than 65,536 characters.",
            id="long",
        ),
    ],
)
def test_front_matter_that_would_exhaust_the_memory_is_reported(
    front_matter: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "note.md").write_text(f"---\n{front_matter}---\nThe shop is in Berlin.\n")
    contents = read("obsidian", tmp_path)
    assert bodies(contents) == ["The shop is in Berlin."]
    assert reasons(contents) == [reason]


def test_front_matter_values_are_read_as_text(tmp_path: Path) -> None:
    matter = "tags: [yes, 1_0, 2025-01-02]\ndate: 2025-01-02\n"
    (tmp_path / "note.md").write_text(f"---\n{matter}---\nThe shop is in Berlin.\n")
    (note,) = drafts(read("obsidian", tmp_path))
    assert note.tags == ("yes", "1_0", "2025-01-02")
    assert note.occurred_at is not None
    assert note.occurred_at.isoformat() == "2025-01-02T00:00:00+00:00"


def edge(uuid: str, fact: str, **fields: object) -> dict[str, object]:
    common = {"name": "LEADS", "source_node_uuid": "ada", "target_node_uuid": "billing"}
    return {"uuid": uuid, "fact": fact, **common, **fields}


def superseding(contents: Sequence[Content]) -> list[tuple[str, str]]:
    pairs = [one for one in contents if isinstance(one, SourceRelation) and one.type is None]
    return [(one.first[-2:], one.second[-2:]) for one in pairs]


def test_edge_is_superseded_only_by_a_single_later_edge_of_the_same_relation(
    tmp_path: Path,
) -> None:
    ended = edge("e1", "Ada leads billing.", valid_at="2024-01-01", invalid_at="2025-01-01")
    start = "2025-01-01T00:00:00Z"
    newer = edge("e2", "Ada leads search.", target_node_uuid="search", valid_at=start)
    also = edge("e3", "Ada leads ads.", target_node_uuid="ads", valid_at=start)
    other = edge("e4", "Ada likes tea.", name="LIKES", valid_at=start)
    into = edge("e5", "Bo leads billing.", source_node_uuid="bo", valid_at=start)
    for edges, expected in (
        ([ended, newer, other, into], [("e2", "e1")]),
        ([ended, other, into], []),
        ([ended, newer, also], []),
    ):
        contents = read("graphiti", written(tmp_path, "graph.json", {"edges": edges}))
        assert superseding(contents) == expected
        assert drafts(contents)[0].expires_at is not None


def database(folder: Path, script: str, insert: str = "", *values: str) -> Path:
    path = folder / "sqlite_vec.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
        if insert:
            connection.execute(insert, values)
            connection.commit()
    return path


def test_belief_is_linked_to_all_its_source_memories(tmp_path: Path) -> None:
    hashes = [f"h{number}" for number in range(80)]
    source = database(
        tmp_path,
        "CREATE TABLE memories (id INTEGER PRIMARY KEY, content_hash TEXT, content TEXT);"
        "CREATE TABLE beliefs (id INTEGER PRIMARY KEY, belief_hash TEXT, content TEXT,"
        " status TEXT, derived_from TEXT);",
        "INSERT INTO beliefs VALUES (1, 'b1', 'The team meets often.', 'active', ?)",
        json.dumps(hashes),
    )
    relations = [
        one for one in read("mcp-memory-service", source) if isinstance(one, SourceRelation)
    ]
    assert len(relations) == len(hashes)


def test_text_stored_as_bytes_is_read_and_other_bytes_are_reported(tmp_path: Path) -> None:
    source = database(
        tmp_path,
        "CREATE TABLE memories (id INTEGER PRIMARY KEY, content_hash TEXT, content TEXT);"
        "INSERT INTO memories VALUES (1, 'h1', CAST('The office is in Berlin.' AS BLOB));"
        "INSERT INTO memories VALUES (2, 'h2', X'FF00FE');",
    )
    contents = read("mcp-memory-service", source)
    assert bodies(contents) == ["The office is in Berlin."]
    assert reasons(contents) == ["It has no text."]


DEEP = "[" * 100_000 + "]" * 100_000


def test_deeply_nested_json_in_a_column_is_ignored(tmp_path: Path) -> None:
    source = database(
        tmp_path,
        "CREATE TABLE memories (id INTEGER PRIMARY KEY, content_hash TEXT, content TEXT,"
        " metadata TEXT);",
        "INSERT INTO memories VALUES (1, 'h1', 'The office is in Berlin.', ?)",
        DEEP,
    )
    assert bodies(read("mcp-memory-service", source)) == ["The office is in Berlin."]


def test_deeply_nested_json_in_a_letta_message_is_imported_as_text(tmp_path: Path) -> None:
    message = {"role": "user", "content": '{"a":' + DEEP + "}"}
    agent = {"agents": [{"name": "Ada", "messages": [message]}]}
    contents = read("letta", written(tmp_path, "agent.af", agent))
    assert "".join(bodies(contents)).startswith('{"a":[[')


def test_deeply_nested_sql_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    dump = tmp_path / "dump.sql"
    deep = "(" * 3000 + "1" + ")" * 3000
    dump.write_text(
        "CREATE TABLE `brain_memories` (\n  `id` varchar(36),\n  `workspace_id` int,\n"
        "  `content` text,\n  `type` varchar(9)\n);\nINSERT INTO `brain_memories` VALUES\n"
        f"('a',1,{deep},'fact'),\n('b',1,'The office is in Berlin.','fact');\n"
    )
    contents = read("openbrain", dump)
    assert bodies(contents) == ["The office is in Berlin."]
    assert len(reasons(contents)) == 1


def test_values_of_wrong_types_in_a_chat_are_skipped(tmp_path: Path) -> None:
    message = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["Hi."]}}
    message = {**message, "create_time": 1_700_000_000}
    odd = {"author": {"role": ["user"]}, "content": {"content_type": {"a": 1}, "parts": ["x"]}}
    mapping = {"a": {"message": message, "children": [["b"]]}, "b": {"message": odd}}
    chat = {"conversation_id": "c", "title": "T", "mapping": mapping, "current_node": ["a"]}
    assert bodies(read("chatgpt", written(tmp_path, "conversations.json", [chat]))) == ["Hi."]


def test_dump_with_malformed_ids_and_excessive_votes_is_read(tmp_path: Path) -> None:
    dump = tmp_path / "dump.sql"
    dump.write_text(
        "COPY public.rules (id, body, severity, linked_incident_ids) FROM stdin;\n"
        "1\tAlways run the tests before a deploy.\tBLOCKER\t{1,x}\n\\.\n"
        "COPY public.facts (id, body) FROM stdin;\n\\.\n"
        "COPY public.memory_index (kind, memory_id, upvotes) FROM stdin;\nrule\t1\t1e300\n\\.\n"
    )
    pieces = list(IMPORTERS["open-brain"].read(dump))
    assert [one.content.rating for one in pieces if isinstance(one.content, Draft)] == [2**53]
    relations = [one.content for one in pieces if isinstance(one.content, SourceRelation)]
    assert [one.first.rpartition("/")[2] for one in relations] == ["1", "x"]


def test_damaged_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps([{"mapping": {}, "title": "x" * 99}]))
    whole = path.read_bytes()
    central = whole.index(b"PK\x01\x02")
    for at, value in ((6, b"\x01"), (8, b"\x63"), (-1, b"\xff" * 20)):
        damaged = bytearray(whole)
        if at < 0:
            damaged[48:68] = value
        else:
            damaged[at : at + 1] = damaged[central + at + 2 : central + at + 3] = value
        path.write_bytes(damaged)
        with pytest.raises(InvalidInputError, match=r"conversations\.json"):
            read("chatgpt", path)


@pytest.mark.parametrize("public_is_first", [True, False])
def test_public_table_is_read_if_another_schema_has_one_of_the_same_name(
    tmp_path: Path, *, public_is_first: bool
) -> None:
    tables = [
        "COPY public.memories (id, content, metadata) FROM stdin;\n"
        "1\tThe office is in Berlin.\t{}\n\\.\n",
        "COPY old.memories (id, content) FROM stdin;\n1\tThe office is in Bonn.\n\\.\n",
    ]
    dump = tmp_path / "dump.sql"
    dump.write_text("".join(tables if public_is_first else reversed(tables)))
    contents = read("open-brain", dump)
    assert bodies(contents) == ["The office is in Berlin."]
    assert contents[-1] == OmittedContent(what="rows of the same tables in other schemas", count=1)


def nested_tuples(count: int) -> bytes:
    steps = b"".join(b"q%ch%c\x86" % (number, number) for number in range(count))
    return b"\x80\x02})" + steps + b"Ns."


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(nested_tuples(40), id="tuples that take exponential time"),
        pytest.param(b"\x80\x02Nr\xff\xff\xff\x0f.", id="a memo of gigabytes"),
    ],
)
def test_pickle_that_expands_beyond_its_size_is_reported(point: bytes, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "storage.sqlite")) as connection:
        connection.execute("CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB)")
        connection.execute("INSERT INTO points VALUES ('1', ?)", (point,))
        connection.commit()
    contents = read("mem0", tmp_path)
    assert reasons(contents) == ["It is not a Qdrant point."]


@pytest.mark.parametrize(
    ("format_", "name"),
    [
        ("chatgpt", "conversations.json"),
        ("mem0", "history.db"),
        ("brain-db", "stm.json"),
    ],
)
def test_link_out_of_the_folder_is_not_followed(format_: str, name: str, tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.write_bytes(b'[{"mapping": {}, "conversation_id": "c"}]\n')
    link = tmp_path / "given" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(private)
    with pytest.raises(InvalidInputError) as caught:
        read(format_, tmp_path / "given")
    assert "private" not in str(caught.value).replace(str(tmp_path), "")


SAMPLES = Path(__file__).parent / "samples"


@pytest.mark.parametrize(
    ("format_", "sample", "name"),
    [
        ("chatgpt", "chatgpt", "conversations-002.json"),
        ("claude-ai", "claude-ai", "extra/conversations-002.json"),
        ("mem0", "mem0", "more/storage.sqlite"),
        ("brain-db", "brain-db", "brain.db"),
        ("obsidian", "obsidian", "far.md"),
    ],
)
def test_file_link_out_of_the_folder_is_reported_and_the_rest_is_read(
    format_: str, sample: str, name: str, tmp_path: Path
) -> None:
    given = tmp_path / "given"
    shutil.copytree(SAMPLES / sample, given)
    if format_ == "mem0":
        with closing(sqlite3.connect(given / "history.db")) as made:
            made.executescript((given / "history.sql").read_text("utf-8"))
    before = read(format_, given)
    (given / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "private").write_bytes(b"private")
    (given / name).symlink_to(tmp_path / "private")
    after = list(read(format_, given))
    after.remove(Unreadable(where=name, reason="It is a link that leaves the folder."))
    assert after == before


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text(), values, max_size=4),
    max_leaves=12,
)
DIGITS = 4_301
"""More than one number may have."""


def read_in_chunks(text: str, size: int) -> bytes:
    stream = BoundedJson(io.BytesIO(text.encode()))
    return b"".join(iter(lambda: stream.read(size), b""))


@given(value=JSON, is_ascii=st.booleans(), size=st.integers(1, 40))
def test_bounded_json_passes_ordinary_documents_unchanged(
    value: object, *, is_ascii: bool, size: int
) -> None:
    text = json.dumps([value, "9" * DIGITS], ensure_ascii=is_ascii)
    assert read_in_chunks(text, size) == text.encode()


@given(
    value=JSON,
    number=st.sampled_from(["{}", "-{}", "0.{}", "1e{}", '{{"n": {}}}']),
    size=st.integers(1, 10_000),
)
def test_bounded_json_refuses_a_long_number_anywhere(value: object, number: str, size: int) -> None:
    text = f"[{json.dumps(value)}, {number.format('9' * DIGITS)}]"
    with pytest.raises(ValueError, match="digits"):
        read_in_chunks(text, size)


@given(part=st.sampled_from(["a", '\\"', "\\\\", "\\u0041", "ä"]), size=st.integers(1, 200))
def test_bounded_json_refuses_a_string_beyond_its_bound(part: str, size: int) -> None:
    def read_string(bytes_: int) -> bytes:
        text = f'["{part * (bytes_ // len(part.encode()))}"]'
        stream = BoundedJson(io.BytesIO(text.encode()), string_bytes_max=100)
        return b"".join(iter(lambda: stream.read(size), b""))

    assert read_string(96)
    with pytest.raises(ValueError, match="string"):
        read_string(112)


def read_s(piece: str, length: int) -> float:
    """Measure the processor time of reading a piece over and over."""
    text = piece * (length // len(piece))
    since = process_time()
    read_in_chunks(text, 65_536)
    return process_time() - since


def test_reading_time_of_bounded_json_grows_linearly(subtests: pytest.Subtests) -> None:
    escapes = '"{}",'
    for piece in [
        *("1,", "9 ", '"a",', "\\", "9" * (DIGITS - 1) + ",", "9" * 2_000 + "a"),
        *(escapes.format('\\"' * 3_000), escapes.format("\\\\" * 3_000)),
    ]:
        with subtests.test(piece=piece[:8]):
            # Other programs may disturb a measurement, so it is repeated.
            assert any(read_s(piece, 800_000) <= 8 * read_s(piece, 200_000) for _ in range(5))


def test_elements_before_a_long_number_are_read() -> None:
    read_ahead = elements(io.BytesIO(b'["first", ' + b"9" * 66_000 + b"]"))
    assert next(read_ahead).value == "first"
    with pytest.raises(NotJson, match="digits"):
        next(read_ahead)
