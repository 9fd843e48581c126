import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.text.exact_terms import (
    asked_part,
    exact_share,
    exact_terms,
    extra_words,
    indexed_text,
)

WOMAN_AT_COMPUTER = "\U0001f469\u200d\U0001f4bb"
GERMANY = "\U0001f1e9\U0001f1ea"


@pytest.mark.parametrize(
    ("question", "terms"),
    [
        ("which build needs python 3.11?", [("python 3.11", "3.11")]),
        ("what is new in v2.14.1", [("2.14.1",)]),
        ("port 8080", [("port 8080", "8080")]),
        ("what listens on port 80?", [("port 80",)]),
        ("is the limit 5,000 rows", [("limit 5000", "5000 row")]),
        ("max_size=20", [("max_size",), ("max_size 20",)]),
        ("commit a81bc81de00b2f9b", [("a81bc81de00b2f9b",)]),
        ("5D2E953C-99db-4cb1-b9c5-e2ff2e704b4d", [("5d2e953c99db4cb1b9c5e2ff2e704b4d",)]),
        ("sha256:1e9d44a", [("1e9d44a",)]),
        ("./src/gateway/limits.py:42", [("src/gateway/limits.py",)]),
        ("after 300 seconds", [("300",)]),
        ("files of 25MB", [("25MB",)]),
        ("#123 or E1043", [("123",), ("E1043",)]),
        ("when do I need --no-cache", [("--no-cache",)]),
        ("what does \u26a0\ufe0f mean", [("\u26a0",)]),
        (f"{WOMAN_AT_COMPUTER}\U0001f1e9\U0001f1ea", [(WOMAN_AT_COMPUTER,), (GERMANY,)]),
        ("\U0001f600", [("\U0001f600",)]),
    ],
)
def test_question_names_exact_terms(question: str, terms: list[tuple[str, ...]]) -> None:
    assert exact_terms(question) == tuple(terms)


@pytest.mark.parametrize(
    "question",
    [
        "what are the 3 steps of the release?",
        "top 5 risks",
        "top risks of the client/server split",
        "how do I deploy to GitHub",
        "thanks \U0001f600",
        "and/or",
        "",
    ],
)
def test_counts_moods_and_words_are_no_exact_terms(question: str) -> None:
    assert exact_terms(question) == ()


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("We are on Vite 5.0. Where is the proxy configured?", "Where is the proxy configured?"),
        ("it fails with 137, on which days do we meet?", "on which days do we meet?"),
        ("Where is the wiki of ops? I know 10.20.3.14.", "Where is the wiki of ops?"),
        ("\U0001f680 what are the pillars of trust?", "what are the pillars of trust?"),
        ("Vite 5.0: what is wrong with it?", None),
        ("I get E1043. What now?", None),
        ("commit a81bc81, what did the commit do", None),
        ("which port is it, 8080?", None),
        ("", None),
    ],
)
def test_what_is_said_around_a_question_is_background(text: str, asked: str | None) -> None:
    assert asked_part(text) == (text if asked is None else asked)


@pytest.mark.parametrize(
    ("term", "text", "share"),
    [
        ("port 80", "It listens on port: 80.", 1),
        ("port 80", "It listens on port 8080.", 0),
        ("3.11", "It needs Python3.11-slim", 1),
        ("3.11", "It needs Python 3.11.4", 0),
        ("3.11", "It needs Python 13.11", 0),
        ("8080", "The gateway is at 8080", 0.5),
        ("1042", "Error E1042", 0.5),
        ("5000 row", "batches of 5,000 rows", 0.5),
        ("5000 row", "batches of 15,000 rows", 0),
        ("380", "a budget of 380kB", 0.5),
        ("500 user", "500 rows", 0),
        ("a81bc81", "Bisect found A81BC81D.", 1),
        ("a81bc81de00b", "Bisect found a81bc81d.", 1),
        ("a81bc81", "Bisect found a81bc82d.", 0),
        ("5d2e953c99db", "Tenant 5d2e953c-99db-4cb1-b9c5-e2ff2e704b4d", 1),
        ("limits.py", "See src/gateway/limits.py.", 1),
        ("limits.py", "See my-limits.py, limits.pyc and limits.py.bak", 0),
        ("gateway/limits.py", "See limits.py", 0.5),
        ("gateway/limits.py", "See worker/limits.py", 0),
        ("ops/db", "See ops/db/migrate.sh", 1),
        ("--ui", "Pass --ui-mode", 0),
        ("-r", "Pass -R", 0),
        ("E1043", "e1043 means", 1),
        ("under-12", "The under-12s train", 1),
        ("PAY-31", "PAY-312 is open", 0),
        ("\u26a0", "\u26a0\ufe0f marks a breaking change", 1),
    ],
)
def test_text_has_a_term_as_a_whole(term: str, text: str, share: float) -> None:
    assert exact_share([(term,)], text) == share


def test_share_is_that_of_all_terms_and_the_best_form_of_each() -> None:
    terms = [("port 8080", "8080"), ("E1043",)]
    assert exact_share(terms, "port 8080") == 0.5
    assert exact_share(terms, "port 8080, E1043") == 1
    assert exact_share([], "port 8080") == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Use \U0001f680 for releases.", ["u1f680"]),
        (WOMAN_AT_COMPUTER, ["u1f469", "u1f4bb"]),
        ("\u30d5\u30ed\u30f3\u30c8\u306fReact\u3067\u66f8\u304f", ["React"]),
        ("\u0e1e\u0e2d\u0e23\u0e4c\u0e159443\u0e41\u0e25\u0e30nginx", ["9443", "nginx"]),
        ("Caf\u00e9 na\u00efve", []),
        ("Bisect found a81bc81de00b2f9b.", ["a81bc81"]),
        ("The port is 1234567, defaced.", []),
    ],
)
def test_full_text_gets_the_words_that_it_does_not_split(text: str, words: list[str]) -> None:
    assert list(extra_words(text)) == words
    assert indexed_text(text) == " ".join([text, *words])


@given(st.text(), st.text())
def test_every_text_can_be_read_and_compared(question: str, text: str) -> None:
    terms = exact_terms(question)
    assert 0 <= exact_share(terms, text) <= 1
    assert len(terms) <= 8
    assert indexed_text(text).startswith(text)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_number_is_found_in_a_text_only_as_itself(asked: int, other: int) -> None:
    share = exact_share(exact_terms(f"the port {asked}"), f"It is at port {other}.")
    assert share == (asked == other)
