from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.limits import ENTITIES_MAX, NAME_CHARS_MAX, TEXT_BYTES_MAX
from commonbrain.text.entities import Entities, extract_entities


def test_hashtags_are_tags(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, tuple[str, ...]]] = [
        ("Cut the #Release now, #hot-fix!", ("release", "hot-fix")),
        ("#release and #RELEASE", ("release",)),
        ("issue #12 and PR #7", ()),
        ("# A heading", ()),
        ("see https://example.org/a#part", ()),
        ("a C# file & a#b", ()),
        ("`#define X`", ()),
    ]
    for text, tags in cases:
        with subtests.test(text=text, tags=tags):
            assert extract_entities(text).tags == tags


def test_mentions_are_people_and_addresses_and_decorators_are_not(
    subtests: pytest.Subtests,
) -> None:
    cases: list[tuple[str, tuple[str, ...]]] = [
        ("Fixed by @Anna.Lee and (@bo).", ("anna.lee", "bo")),
        ("@anna\nplease look", ("anna",)),
        ("write to me@example.org", ()),
        ("@cache\ndef load(): ...", ()),
        ("@app.get('/x')\nasync def x(): ...", ()),
        ("use @property or @dataclass", ()),
        ("install @types/node", ()),
        ("@decision we keep SQLite", ()),
        ("hello @everyone", ()),
        ("run `ssh @host`", ()),
    ]
    for text, people in cases:
        with subtests.test(text=text, people=people):
            assert extract_entities(text).people == people


def test_references_are_found_as_written(subtests: pytest.Subtests) -> None:
    for reference in [
        "OPS-311",
        "#123",
        "COMMONBRAIN_STORE",
        "v1.2.3",
        "v2.4.0-rc1",
        "v0001_first_light",
        "0003_add_users",
        "20260102_add_index",
        "1a2b3c4",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "src/app/main.py",
        "/etc/hosts",
        "~/.bashrc",
        "config.toml",
        ".env",
        ".gitignore",
        "src/domain/rules",
        "@types/node",
        "https://example.org/a?b=c",
    ]:
        with subtests.test(reference=reference):
            assert extract_entities(f"We saw {reference}.").references == (reference,)
            assert extract_entities(f"We saw `{reference}`, too").references == (reference,)
            assert extract_entities(f"We saw **{reference}** too").references == (reference,)


def test_text_that_resembles_a_reference_is_not_extracted(subtests: pytest.Subtests) -> None:
    for text in [
        "and/or",
        "24/7",
        "UTF-8",
        "SHA-256",
        "1234567",
        "deadbeef",
        "2026/01/02",
        "e.g.",
        "3.5",
    ]:
        with subtests.test(text=text):
            assert extract_entities(f"it says {text} there").references == ()


def test_topics_are_capitalized_words_within_a_sentence() -> None:
    text = "The team likes Redis. Kafka came later, said Ben: Postgres stays in Berlin.\n- Later"
    assert extract_entities(text).topics == ("redis", "ben", "berlin")


@given(st.text())
def test_arbitrary_text_yields_few_short_names_each_once(text: str) -> None:
    entities = extract_entities(text)
    sorts = (entities.tags, entities.people, entities.references, entities.topics)
    assert all(len(names) == len(set(names)) <= ENTITIES_MAX for names in sorts)
    assert all(0 < len(name) <= NAME_CHARS_MAX for names in sorts for name in names)
    assert entities.count == sum(map(len, sorts))


@given(st.lists(st.from_regex(r"[A-Z][a-z]{2,8}", fullmatch=True), max_size=5))
def test_mention_in_another_case_adds_no_second_person(names: list[str]) -> None:
    written = " ".join(f"@{name} @{name.upper()}" for name in names)
    assert len(extract_entities(written).people) <= len({name.casefold() for name in names})


def test_number_of_entities_is_bounded() -> None:
    text = " ".join(f"#t{n}" for n in range(500)) + " @" + "a" * 500
    assert extract_entities(text).tags == tuple(f"t{n}" for n in range(ENTITIES_MAX))
    assert extract_entities(text).people == ()


def test_empty_text_has_no_entities() -> None:
    assert extract_entities("") == Entities()


def test_hostile_text_is_read_in_linear_time(subtests: pytest.Subtests) -> None:
    for unit in [
        *("a", "A", "@", "#", "/", "`", "a/", "a.", "a-", "@a", "@a.", "\n@a(", ".", "../"),
        *("A-", "A_", "http://", "+", "-", "f0_", "0f", "\n", " ", "'", "` "),
    ]:
        with subtests.test(unit=unit):
            started = process_time()
            extract_entities((unit * TEXT_BYTES_MAX)[:TEXT_BYTES_MAX])
            assert process_time() - started < 2
