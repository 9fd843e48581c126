from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.kinds import Kind
from commonbrain.model.memory import semantic_hash
from commonbrain.text.normalisation import is_same_text

WORDS = st.from_regex(r"[a-z]{2,8}", fullmatch=True)
IDENTIFIERS = st.from_regex(
    r"[a-z]{2,6}[A-Z][a-z]{1,6}|-[a-z]|v[1-9]|[a-z]{2,5}_[a-z]{2,5}", fullmatch=True
)
SENTENCES = st.lists(
    st.tuples(WORDS, st.lists(WORDS | IDENTIFIERS, min_size=1, max_size=5)), min_size=1, max_size=3
)
SPACES = st.sampled_from([" ", "  ", " \n"])


def prose(sentences: list[tuple[str, list[str]]], *, capitals: list[bool], space: str) -> str:
    starts = [
        first.capitalize() if is_capital else first
        for (first, _), is_capital in zip(sentences, capitals, strict=True)
    ]
    rest = [" ".join(words) for _, words in sentences]
    return space.join(f"{one} {more}." for one, more in zip(starts, rest, strict=True))


@given(data=st.data(), sentences=SENTENCES)
def test_first_letters_of_sentences_and_spacing_do_not_make_another_text(
    data: st.DataObject, sentences: list[tuple[str, list[str]]]
) -> None:
    capitals = st.lists(st.booleans(), min_size=len(sentences), max_size=len(sentences))
    one, other = (
        prose(sentences, capitals=data.draw(capitals), space=data.draw(SPACES)) for _ in range(2)
    )
    assert is_same_text(one, other)
    assert semantic_hash(Kind.FACT, one) == semantic_hash(Kind.FACT, other)


@given(data=st.data(), sentences=SENTENCES, identifier=IDENTIFIERS)
def test_capitals_within_an_identifier_make_another_text(
    data: st.DataObject, sentences: list[tuple[str, list[str]]], identifier: str
) -> None:
    place = data.draw(st.sampled_from([n for n, one in enumerate(identifier) if one.isalpha()]))
    changed = identifier[:place] + identifier[place].swapcase() + identifier[place + 1 :]
    number = data.draw(st.integers(0, len(sentences) - 1))
    first, words = sentences[number]
    one, other = (
        [*sentences[:number], (first, [*words, written]), *sentences[number + 1 :]]
        for written in (identifier, changed)
    )
    capitals = [False] * len(sentences)
    assert not is_same_text(
        prose(one, capitals=capitals, space=" "), prose(other, capitals=capitals, space=" ")
    )


def test_hash_of_stored_texts_stays_what_it_was() -> None:
    # Stores of earlier versions are searched by it.
    assert semantic_hash(Kind.FACT, "Deploys of  the API\nare frozen") == HASH
    assert semantic_hash(Kind.FACT, "deploys of the api are frozen") == HASH


HASH = "7a6ebab310ceebd6f9067497fe74b96b"
