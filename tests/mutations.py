"""Sources of every format, changed at random in their structure, each made by a number.

A value is replaced, repeated, moved, nested or lost where the format has values: in the tree of
JSON, in the lines and fields of a dump, in the blocks of Markdown, in the tables, schema and pages
of SQLite, in the members and headers of a zip. At times bytes change as well.
"""

import io
import json
import sqlite3
import struct
import zipfile
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

_REPO: Final = Path(__file__).parents[1]
SAMPLES: Final = _REPO / "packages" / "commonbrain-import" / "tests" / "samples"
CORE_SAMPLES: Final = _REPO / "tests" / "transfer" / "samples"

TEXTS: Final = (
    *("", "\x00", "\ufeff", "\ud800", "\u202e", "a\u0301" * 50, "NaN", "null", "'", '"', "\\"),
    *("9" * 400, "-1", "1e999", "0x10", "2026-13-45T99:99:99Z", "../../etc/passwd", "%s%n", "{{"),
    *("[[" * 200, "](" * 200, "> " * 300, "`" * 300, "<!--", "\r\n" * 20, "x" * 2_000),
)
NUMBERS: Final = (0, -1, 2**31, 2**63, -(2**63) - 1, 10**400, 1e308, float("inf"), float("nan"))
_PLACES_MAX: Final = 20_000
"""Of a tree of JSON; repetitions of repetitions would take the time of a thousand others."""
Mutator = Callable[[Random, bytes], bytes]


def _odd(random: Random) -> Any:  # noqa: ANN401 a value of JSON
    if random.random() < 0.01:
        return "x y" * 30_000
    simple: tuple[Any, ...] = (None, True, [], {}, [[]], {"": {}}, [None] * 50)
    return random.choice((*simple, *TEXTS, *NUMBERS))


def mutate_bytes(random: Random, data: bytes) -> bytes:
    """Cut, repeat, move, insert or flip some bytes."""
    if not data:
        return bytes(random.randrange(256) for _ in range(random.randrange(64)))
    start = random.randrange(len(data))
    end = min(len(data), start + random.choice((1, 2, 4, 16, 256, 4096)))
    part = data[start:end]
    odd = random.choice((b"\x00", b"\xff" * 4, b"\x80", b"\xed\xa0\x80", b"9" * 5_000))
    at = random.randrange(len(data))
    made = (
        data[:start],
        data[:start] + data[end:],
        data[:end] + part * random.choice((1, 2, 50)) + data[end:],
        data[:at] + part + data[at:],
        data[:start] + odd + data[start:],
        data[:start] + bytes(one ^ (1 << random.randrange(8)) for one in part) + data[end:],
    )
    return random.choice(made)


def _places(value: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401 a value of JSON
    """Return every container with each of its keys or places."""
    places: list[tuple[Any, Any]] = []
    rest = [value]
    while rest:
        here = rest.pop()
        keys: list[Any] = list(here if isinstance(here, dict) else range(len(here)))  # pyright: ignore[reportUnknownArgumentType]
        places += [(here, key) for key in keys]
        rest += [here[key] for key in keys if isinstance(here[key], dict | list)]
    return places


def _change_place(random: Random, root: Any) -> None:  # noqa: ANN401 a value of JSON
    places = _places(root)
    if not places:
        return
    held, key = random.choice(places)
    match random.randrange(6):
        case 0:
            del held[key]
        case 1:
            other, place = random.choice(places)
            with suppress(LookupError):
                held[key] = json.loads(json.dumps(other[place]))
        case 2:
            depth = random.choices((1, 3, 90, 900), (40, 40, 10, 1))[0]
            for _ in range(depth):
                held[key] = [held[key]] if random.random() < 0.5 else {"content": held[key]}
        case 3 if isinstance(held, list):
            held[key:key] = [held[key]] * random.choice((1, 5, 20))
        case 3 | 4 if isinstance(held, dict):
            held[random.choice((*TEXTS[:9], *(str(one) for _, one in places)))] = held.pop(key)  # pyright: ignore[reportUnknownMemberType]
        case _:
            held[key] = _odd(random)


def mutate_json(random: Random, data: bytes) -> bytes:
    """Change some places of a tree of JSON; at times make it deeper than parsers go, or no JSON."""
    root = [json.loads(data)]
    for _ in range(random.choice((1, 1, 2, 5))):
        with suppress(RecursionError):
            _change_place(random, root)
    made = _written(random, root) or data
    if random.random() < 0.01:
        deep = random.choice((b"[", b'{"a":')) * random.choice((1_000, 100_000))
        at = random.randrange(len(made) + 1)
        made = made[:at] + deep + made[at:]
    return mutate_bytes(random, made) if random.random() < 0.2 else made


def _written(random: Random, value: Any) -> bytes | None:  # noqa: ANN401 a value of JSON
    """Write a value of JSON, unless it is nested too deep or repeated too often for that."""
    if len(_places(value)) > _PLACES_MAX:
        return None
    try:
        text = json.dumps(value, ensure_ascii=random.random() < 0.5)
    except RecursionError:
        return None
    return text[1:-1].encode("utf-8", "surrogatepass")


_LINES_MAX: Final = 12


def mutate_json_lines(random: Random, data: bytes) -> bytes:
    """Change lines of JSON, and their order and number; of many lines, take some."""
    lines = data.splitlines()
    if random.random() < 0.9:
        start = random.randrange(max(len(lines) - _LINES_MAX, 1))
        lines = lines[start : start + _LINES_MAX]
    for _ in range(random.choice((1, 2, 4))):
        if not lines:
            break
        at, other = random.randrange(len(lines)), random.randrange(len(lines))
        match random.randrange(6):
            case 0:
                lines[at], lines[other] = lines[other], lines[at]
            case 1:
                del lines[at]
            case 2:
                lines[at:at] = [lines[other]] * random.choice((1, 20))
            case 3:
                lines[at] += lines[other]
            case _:
                with suppress(ValueError):
                    lines[at] = mutate_json(random, lines[at])
    made = random.choice((b"\n", b"\n", b"\r\n")).join(lines)
    return mutate_bytes(random, made) if random.random() < 0.1 else made


def mutate_export(random: Random, data: bytes) -> bytes:
    """Change the records of an export, mostly between its first and a right last line."""
    head, *records, _end = data.splitlines()
    made = mutate_json_lines(random, b"\n".join(records)).strip(b"\n")
    if random.random() < 0.1:
        return made
    return b"%s\n%s\n" % (head, made) + b'{"end":{"records":%d}}\n' % (made.count(b"\n") + 1)


_ROWS: Final = (b"CREATE TABLE", b"COPY ", b"INSERT ", b"\\.")


def mutate_dump(random: Random, data: bytes) -> bytes:
    """Change the lines of a dump, of which most paragraphs without a table or rows are left out."""
    paragraphs = [
        one
        for one in data.split(b"\n\n")
        if any(word in one for word in _ROWS) or random.random() < 0.1
    ]
    return mutate_lines(random, b"\n\n".join(paragraphs))


_SEPARATORS: Final = (b"\t", b",", b"'", b"(", b")", b";", b" ", b"\\", b"\\N", b"$$", b"--", b"/*")


def mutate_lines(random: Random, data: bytes) -> bytes:
    """Change the lines of a dump, or the fields of one."""
    lines = data.split(b"\n")
    for _ in range(random.choice((1, 2, 4))):
        at, other = random.randrange(len(lines)), random.randrange(len(lines))
        match random.randrange(6):
            case 0:
                lines[at], lines[other] = lines[other], lines[at]
            case 1 if len(lines) > 1:
                del lines[at]
            case 2:
                lines[at:at] = lines[other : other + random.choice((1, 5))]
            case 3:
                lines[at] = mutate_bytes(random, lines[at])
            case _:
                separator = random.choice(_SEPARATORS)
                fields = lines[at].split(separator)
                odd = str(_odd(random)).encode("utf-8", "replace")
                nested = b"(" * random.choices((1, 50, 3_000), (60, 30, 1))[0] + odd
                fields[random.randrange(len(fields))] = random.choice((odd, nested, b""))
                lines[at] = random.choice((separator, random.choice(_SEPARATORS))).join(fields)
    return b"\n".join(lines)


_BLOCKS: Final = (
    *(b"---\na: &a [*a, *a]\n---\n", b"---\n", b"```\n", b"~~~~\n", b"- " * 100, b"> " * 200),
    *(b"# ", b"###### ", b"| a | b |\n|---|---|\n", b"[[" * 100, b"](" * 100, b"<div>", b"    "),
    *(b"1. ", b"\t- ", b"[a]: b\n", b"![", b"\\" * 99, b"*" * 400, b"_a" * 300, b"- [x] #t (c)\n"),
)


def mutate_markdown(random: Random, data: bytes) -> bytes:
    """Change the blocks of a note."""
    lines = mutate_lines(random, data).split(b"\n")
    for _ in range(random.choice((1, 2, 5))):
        at = random.randrange(len(lines))
        block = random.choice(_BLOCKS)
        lines[at] = random.choice((block + lines[at], lines[at] + block, block))
    return b"\n".join(lines)


@cache
def _database(dump: Path) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "made.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(dump.read_text("utf-8"))
            connection.commit()
        return path.read_bytes()


def _change_database(random: Random, connection: sqlite3.Connection) -> None:
    listed = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    table = random.choice(listed)[0]
    column = random.choice(connection.execute(f'PRAGMA table_info("{table}")').fetchall())[1]
    odd = random.choice((_odd(random), b"\x00\xff" * 8, bytes(70_000)))
    value = odd if isinstance(odd, str | bytes | float | None) else str(odd)
    if isinstance(value, str):
        value = value.encode("utf-8", "replace").decode()
    match random.randrange(7):
        case 0:
            connection.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
        case 1:
            connection.execute(f'DROP TABLE "{table}"')
            body = random.choice(("SELECT * FROM sqlite_master", "SELECT 1/0, zeroblob(1000000)"))
            connection.execute(f'CREATE VIEW "{table}" AS {body}')
        case 2:
            connection.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}"')  # noqa: S608
        case 3:
            connection.execute("PRAGMA writable_schema = ON")
            rows = connection.execute("SELECT rowid, sql FROM sqlite_master").fetchall()
            row, sql = random.choice(rows)
            changed = mutate_lines(random, (sql or "").encode()).decode("utf-8", "replace")
            connection.execute("UPDATE sqlite_master SET sql = ? WHERE rowid = ?", (changed, row))
        case _:
            statement = f'UPDATE "{table}" SET "{column}" = ? WHERE rowid % ? = 0'  # noqa: S608
            connection.execute(statement, (value, random.choice((1, 2, 3))))


_FIELDS: Final = (16, 18, 20, 28, 32, 36, 44, 52, 56, 100, 103, 105, 108)
"""Of the header of a database, and of the first page of its tree."""


def _change_pages(random: Random, data: bytes) -> bytes:
    made = bytearray(data)
    pages = max(len(made) // 4096, 1)
    for _ in range(random.choice((1, 2, 8))):
        page = 4096 * random.randrange(pages)
        match random.randrange(4):
            case 0:
                struct.pack_into(">I", made, random.choice(_FIELDS), random.getrandbits(32))
            case 1:
                at = page + random.randrange(12)
                made[at] = random.choice((0, 2, 5, 10, 13, 255))
            case 2:
                at = min(page + random.randrange(4095), len(made) - 2)
                struct.pack_into(">H", made, at, random.choice((0, 1, 4095, 65535)))
            case _:
                other = 4096 * random.randrange(pages)
                made[page : page + 4096] = made[other : other + 4096]
    return bytes(made)


def mutate_database(random: Random, data: bytes) -> bytes:
    """Change values, tables or the schema of a database, or its pages."""
    made = data
    if random.random() < 0.6:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.deserialize(data)
            for _ in range(random.choice((1, 2, 4))):
                with suppress(sqlite3.Error, IndexError, OverflowError):
                    _change_database(random, connection)
            with suppress(sqlite3.Error):
                connection.commit()
            made = connection.serialize()
    if made is data or random.random() < 0.2:
        made = _change_pages(random, made)
    return mutate_bytes(random, made) if random.random() < 0.1 else made


_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
_SHARES: Final = (8, 8, 1, 1)
"""Of the methods; to begin with the last two takes longer than to read ten sources."""
_NAMES: Final = ("../x.json", "/x.json", "a/" * 70 + "conversations.json", "x\x00.json", ".json")


def zip_of(random: Random, files: Mapping[str, bytes]) -> bytes:
    """Pack files by odd names and methods, and change the headers of the zip."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in files.items():
            shown = random.choice(_NAMES) if random.random() < 0.1 else name
            for _ in range(random.choice((1, 1, 1, 2))):
                (method,) = random.choices(_METHODS, _SHARES)
                archive.writestr(shown, data, compress_type=method)
    made = bytearray(packed.getvalue())
    for _ in range(random.choice((0, 1, 1, 4))):
        mark = random.choice((b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"))
        at = made.find(mark, random.randrange(len(made)))
        at = made.find(mark) if at < 0 else at
        field = min(at + random.randrange(4, 46), len(made) - 4)
        odd = random.choice((0, 1, 99, 0xFFFF, 0xFFFFFFFF, random.getrandbits(32)))
        struct.pack_into("<I", made, max(field, 0), odd)
    return mutate_bytes(random, bytes(made)) if random.random() < 0.2 else bytes(made)


_MUTATORS: Final[Mapping[str, Mutator]] = {
    "json": mutate_json,
    "af": mutate_json,
    "jsonl": mutate_json_lines,
    "export": mutate_export,
    "md": mutate_markdown,
    "sql": mutate_dump,
    "db": mutate_database,
    "sqlite": mutate_database,
}
SOURCES: Final[Mapping[str, tuple[tuple[str, Mapping[str, Path]], ...]]] = {
    "json": (
        *(("chatgpt", {"conversations.json": SAMPLES / "chatgpt/conversations.json"}),),
        *(("claude-ai", {one: SAMPLES / "claude-ai" / one}) for one in ("conversations.json",)),
        ("letta", {"agent.af": SAMPLES / "letta/agent.af"}),
        ("graphiti", {"graph.json": SAMPLES / "graphiti/graph.json"}),
        ("mem0", {"export.json": SAMPLES / "mem0/export.json"}),
        ("conversations", {"samples.json": SAMPLES / "samples.json"}),
        (
            "brain-db",
            {
                "brain.db": SAMPLES / "brain-db/brain.sql",
                **{one.name: one for one in sorted((SAMPLES / "brain-db").glob("*.json"))},
            },
        ),
    ),
    "zip": tuple(
        (name, {one.name: one for one in sorted((SAMPLES / name).glob("*.json"))})
        for name in ("chatgpt", "claude-ai")
    ),
    "sqlite": (
        ("brain-db", {"brain.db": SAMPLES / "brain-db/brain.sql"}),
        ("brainstem", {"brainstem.db": SAMPLES / "brainstem/brainstem.sql"}),
        ("claude-mem", {"claude-mem.db": SAMPLES / "claude-mem/claude-mem.sql"}),
        ("mcp-memory-service", {"s.db": SAMPLES / "mcp-memory-service/sqlite_vec.sql"}),
        ("mem0", {"history.db": SAMPLES / "mem0/history.sql"}),
        ("mem0", {"storage.sqlite": SAMPLES / "mem0/storage.sql"}),
    ),
    "sql": (
        ("open-brain", {"v1.sql": SAMPLES / "open-brain/v1.dump.sql"}),
        ("open-brain", {"v2.sql": SAMPLES / "open-brain/v2.dump.sql"}),
        ("openbrain", {"dump.sql": SAMPLES / "openbrain/dump.sql"}),
        ("openbrain", {"one_line.sql": SAMPLES / "openbrain/one_line.sql"}),
    ),
    "markdown": (
        ("markdown", {"MEMORY.md": CORE_SAMPLES / "notes/MEMORY.md"}),
        ("obsidian", {"Harbour.md": SAMPLES / "obsidian/vault/Harbour.md"}),
        ("basic-memory", {"Harbour.md": SAMPLES / "basic-memory/projects/Harbour.md"}),
    ),
    "jsonl": (
        *(
            ("claude-code", {"session.jsonl": one})
            for one in sorted((CORE_SAMPLES / "claude-code").glob("*/*.jsonl"))
        ),
        *(
            ("codex", {"rollout.jsonl": one})
            for one in sorted((CORE_SAMPLES / "codex").rglob("*.jsonl"))
        ),
        ("mcp-memory", {"memory.jsonl": SAMPLES / "mcp-memory/memory.jsonl"}),
        ("conversations", {"plain.jsonl": SAMPLES / "plain.jsonl"}),
    ),
    "export": (("export", {"memories.export": CORE_SAMPLES / "memories.export"}),),
}
"""By what is mutated: formats, and the files of a source with what each is made of."""


def write_source(kind: str, number: int, folder: Path) -> tuple[str, Path]:
    """Write the source of a number into a folder; return its format and its path."""
    random = Random(f"{kind} {number}")  # noqa: S311 an example, no secret
    format_, files = SOURCES[kind][number % len(SOURCES[kind])]
    made = {name: _mutated(random, name, path) for name, path in files.items()}
    if kind == "zip":
        made = {"export.zip": zip_of(random, made)}
    for name, data in made.items():
        (folder / name).write_bytes(data)
    return format_, folder if len(made) > 1 else folder / next(iter(made))


def _mutated(random: Random, name: str, path: Path) -> bytes:
    suffix = name.rpartition(".")[2]
    data = _database(path) if suffix in {"db", "sqlite"} else path.read_bytes()
    return _MUTATORS[suffix](random, data)
