"""The study's recipe on a conversation small enough to reckon by hand."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from commonbrain_evals.retrieval.datasets import DATASETS
from commonbrain_evals.retrieval.eval_store import EvalStore, open_eval_store
from commonbrain_evals.retrieval.study import (
    CHATS,
    DOCUMENTS,
    STUDY,
    TALKS,
    LexicalIndex,
    Recipe,
    Shapes,
    rank,
    shapes,
)

from commonbrain.config import Settings
from tests import eval_samples as samples

LATER = datetime(2023, 6, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EvalStore]:
    path = samples.locomo(tmp_path_factory.mktemp("study") / "tiny.json", "one")
    [corpus] = DATASETS["locomo"].read([path])
    with open_eval_store(corpus, settings=Settings(), seed=0) as store:
        yield store


@pytest.fixture(scope="module")
def made(store: EvalStore) -> Shapes:
    return shapes(store.memories, store.services.embedder, has_context=True)


def ranked(store: EvalStore, made: Shapes, *, recipe: Recipe, text: str) -> dict[str, float]:
    return {store.source(id_): of for id_, of in rank(made, recipe, text=text, now=LATER).items()}


def test_words_are_matched_by_stem_and_unknown_words_are_not_matched() -> None:
    words = LexicalIndex.of(["Ann adopts dogs", "Bob repairs boilers", "Ann sleeps"])

    assert np.flatnonzero(words.score_terms(["dog"])).tolist() == [0]
    assert not words.score_terms(["zebra"]).any()
    assert not words.score_terms([]).any()


def test_context_of_a_text_is_two_texts_before_and_one_after_it_in_its_session(
    made: Shapes,
) -> None:
    around = made.views[1].words

    assert np.flatnonzero(around.score_terms(["greyhound"])).tolist() == [0, 1, 2]
    assert np.flatnonzero(around.score_terms(["snores"])).tolist() == [1, 2]
    assert np.flatnonzero(around.score_terms(["pump"])).tolist() == [3]


def test_single_text_of_a_session_is_embedded_without_context(made: Shapes) -> None:
    alone, around = made.views
    assert np.allclose(alone.vectors[alone.starts[3]], around.vectors[around.starts[3]])


def test_names_of_speakers_are_not_embedded(made: Shapes) -> None:
    assert made.names == {"Ann", "Bob"}
    assert np.allclose(made.vector("Is Ann's dog well?"), made.vector("Is  dog well?"))
    assert np.allclose(made.vector("Ann"), made.embedder.query("Ann"))


def test_matching_speaker_date_and_session_raise_the_score_of_a_text(
    store: EvalStore, made: Shapes
) -> None:
    def gain(text: str, recipe: Recipe) -> dict[str, float]:
        plain = ranked(store, made, recipe=Recipe(), text=text)
        with_it = ranked(store, made, recipe=recipe, text=text)
        return {ref: round(with_it[ref] - plain[ref], 3) for ref in sorted(plain)}

    turns = ["one#D1:1", "one#D1:2", "one#D1:3", "one#D2:1"]
    named = gain("What did Bob repair?", Recipe(speaker=0.1))
    assert [named[ref] for ref in turns] == [0, 0.1, 0, 0.1]
    dated = gain("What broke on 20 May 2023?", Recipe(date=0.3))
    assert dated["one#D2:1"] == 0.3
    assert 0 < dated["one#D1:1"] < 0.1
    sat = gain("Who sleeps on the sofa?", Recipe(session=0.2))
    assert [sat[ref] for ref in turns] == [0.2, 0.2, 0.2, 0]


def test_chat_recipes_prefer_or_return_only_messages_of_the_user(tmp_path: Path) -> None:
    dataset = DATASETS["beam"]
    [corpus] = dataset.read(dataset.files(samples.beam(tmp_path)))
    soft, hard = CHATS.values()
    question = "Which port do I use?"
    with open_eval_store(corpus, settings=Settings(), seed=0) as store:
        made = shapes(store.memories, store.services.embedder, has_context=False)

        assert set(ranked(store, made, recipe=hard, text=question)) == {"a-chat#0", "a-chat#2"}
        assert len(ranked(store, made, recipe=soft, text=question)) == 3


def test_every_data_set_has_a_recipe_of_the_study() -> None:
    assert all(STUDY in one.recipes for one in DATASETS.values())
    assert DATASETS["locomo"].recipes == TALKS
    assert DATASETS["beir"].recipes == DOCUMENTS
