from hypothesis import example, given
from hypothesis import strategies as st

from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.memory import full_text, semantic_hash
from commonbrain.testing.builders import a_memory
from commonbrain.text.headlines import derive_headline

KINDS = st.sampled_from(Kind)
WORDS = st.lists(st.text("abcÉß字.-", min_size=1, max_size=12), min_size=1, max_size=40)
GAPS = st.sampled_from([" ", "  ", "\n", "\t\n "])


@given(KINDS, WORDS, GAPS)
def test_case_and_spacing_do_not_change_the_hash(kind: Kind, words: list[str], gap: str) -> None:
    plain = semantic_hash(kind, " ".join(words))
    assert semantic_hash(kind, f"{gap}{gap.join(words).upper().lower()}{gap}") == semantic_hash(
        kind, " ".join(words).upper().lower()
    )
    assert semantic_hash(kind, gap.join(words)) == plain


@given(KINDS, KINDS, st.text(), st.text())
def test_other_words_or_another_kind_change_the_hash(
    kind: Kind, other_kind: Kind, text: str, other: str
) -> None:
    said_the_same = (kind, text.casefold().split()) == (other_kind, other.casefold().split())
    assert (semantic_hash(kind, text) == semantic_hash(other_kind, other)) == said_the_same


@given(WORDS, GAPS)
def test_spacing_does_not_change_the_full_text(words: list[str], gap: str) -> None:
    plain, spaced = " ".join(words), gap.join(words)
    in_full = [full_text(derive_headline(body), body) for body in (plain, spaced)]
    assert semantic_hash(Kind.FACT, in_full[0]) == semantic_hash(Kind.FACT, in_full[1])


@given(st.text(min_size=1).filter(str.strip))
@example("```{")
def test_derived_headline_adds_nothing_to_the_full_text(body: str) -> None:
    assert full_text(derive_headline(body), body) == body


def test_separate_headline_comes_first_in_the_full_text() -> None:
    assert full_text("Why Postgres", "Row-level security.") == "Why Postgres\nRow-level security."


def test_keywords_of_a_message_are_its_sender_project_label_and_tags() -> None:
    message = a_memory(
        1,
        "Hello",
        kind=Kind.MESSAGE,
        detail=MessageDetail(sender="bob"),
        project="api",
        label="chat",
        tags=("x", "y"),
    )
    assert message.keywords == "bob api chat x y"
