"""What of a draft is free text: it is listed and changed in the same places."""

from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.kinds import AtomDetail, MessageDetail, RuleDetail
from commonbrain.model.memory import Draft, ThreadRef, texts_of, with_texts

TEXTS = st.text(max_size=5)
NAMES = st.lists(TEXTS, max_size=3).map(tuple)
DETAILS = st.one_of(
    st.none(),
    st.builds(RuleDetail, skill=st.none() | st.dictionaries(TEXTS, TEXTS | NAMES, max_size=2)),
    st.builds(AtomDetail, subject=TEXTS, action=TEXTS, outcome=TEXTS, consequences=TEXTS),
    st.builds(MessageDetail, sender=st.none() | TEXTS, recipients=NAMES),
)
DRAFTS = st.builds(
    Draft,
    body=TEXTS,
    headline=st.none() | TEXTS,
    label=st.none() | TEXTS,
    project=st.none() | TEXTS,
    source_ref=st.none() | TEXTS,
    distinct_because=st.none() | TEXTS,
    tags=NAMES,
    people=NAMES,
    thread=st.none() | st.builds(ThreadRef, key=TEXTS, subject=TEXTS),
    columns=st.dictionaries(TEXTS, TEXTS | NAMES | st.integers(), max_size=3),
    detail=DETAILS,
)


@given(DRAFTS)
def test_texts_of_a_draft_are_those_that_a_replacement_function_receives(draft: Draft) -> None:
    changed: list[tuple[str, str]] = []

    def note(name: str, text: str) -> str:
        changed.append((name, text))
        return text

    with_texts(draft, note)
    assert list(texts_of(draft)) == changed
