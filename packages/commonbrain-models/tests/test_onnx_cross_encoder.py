"""Rerankers in a folder of the user: pairs, windows, logits, and errors that name a file."""

import shutil
from math import exp
from pathlib import Path

import pytest
from commonbrain_models.onnx_cross_encoder import OnnxCrossEncoder

from commonbrain.model.errors import InvalidInputError, UnavailableError
from tests.onnx_models import make_tokenizer, save_cross_encoder, save_encoder, trust

QUERY = "Who keeps the vault code?"
NEAR = "The vault code is kept by Miriam Okafor."
FAR = "Ann lives in Lisbon."
FILLER = "The weather stayed mild and there was not much to say. "


def open_model(path: Path) -> OnnxCrossEncoder:
    return OnnxCrossEncoder(path, check=trust)


def sigmoid(logit: float) -> float:
    return 1 / (1 + exp(-logit))


def test_one_logit_becomes_a_score_by_the_sigmoid(tmp_path: Path) -> None:
    encoder = open_model(save_cross_encoder(tmp_path / "model"))

    # "the", "vault" and "code" are shared.
    assert encoder.scores(QUERY, [FAR, NEAR]) == pytest.approx([0.5, sigmoid(3)])


def test_two_logits_become_a_score_by_the_softmax(tmp_path: Path) -> None:
    encoder = open_model(save_cross_encoder(tmp_path / "model", logits=2))

    assert encoder.scores(QUERY, [FAR, NEAR]) == pytest.approx([0.5, sigmoid(6)])


def test_score_of_a_long_text_is_that_of_its_best_window(tmp_path: Path) -> None:
    encoder = open_model(save_cross_encoder(tmp_path / "model", max_tokens=48))
    late = FILLER * 6 + "Miriam Okafor keeps a vault code."

    [score, plain] = encoder.scores("vault code", [late, FILLER * 6])

    assert score == pytest.approx(sigmoid(2))
    assert plain == pytest.approx(0.5)


def test_long_query_leaves_half_of_the_input_to_the_text(tmp_path: Path) -> None:
    encoder = open_model(save_cross_encoder(tmp_path / "model"))

    [score] = encoder.scores("vault code " + FILLER * 40, [f"vault code {FILLER}"])

    assert score > sigmoid(2)


def test_empty_invalid_and_very_long_texts_have_a_score(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for text in ["", "   ", "\ud800", "?" * 100_000]:
        with subtests.test(text=text):
            encoder = open_model(save_cross_encoder(tmp_path / "model"))

            assert encoder.scores(text, [text]) == [pytest.approx(0.5)]


def test_empty_list_of_texts_has_no_scores(tmp_path: Path) -> None:
    assert open_model(save_cross_encoder(tmp_path / "model")).scores(QUERY, []) == []


def test_scoring_stops_without_a_waiting_caller(tmp_path: Path) -> None:
    encoder = open_model(save_cross_encoder(tmp_path / "model"))

    with pytest.raises(UnavailableError, match="No one waits"):
        encoder.scores(QUERY, [NEAR], is_over=lambda: True)


def test_model_name_is_the_folder_name_without_its_path(tmp_path: Path) -> None:
    folder = save_cross_encoder(tmp_path / "my-reranker")

    assert open_model(folder).name == "onnx:my-reranker"
    assert open_model(folder / "model.onnx").name == "onnx:my-reranker/model.onnx"


def test_model_with_three_logits_is_refused(tmp_path: Path) -> None:
    folder = save_cross_encoder(tmp_path / "model", logits=3)

    with pytest.raises(InvalidInputError, match=r"model\.onnx has 3 logits; a cross-encoder has"):
        open_model(folder).load()


def test_embedding_model_is_refused_as_a_cross_encoder(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "model")

    with pytest.raises(InvalidInputError, match=r"model\.onnx has no output of logits") as caught:
        open_model(folder).load()
    assert caught.value.hint == "Export the model for text classification."


def test_logits_output_of_any_name_is_found(tmp_path: Path) -> None:
    folder = save_cross_encoder(tmp_path / "model", output="scores")

    [score] = open_model(folder).scores("vault", ["vault"])

    assert score == pytest.approx(sigmoid(1))


def test_missing_and_damaged_files_are_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=f"There is no model at {tmp_path / 'none'}"):
        open_model(tmp_path / "none").load()
    folder = save_cross_encoder(tmp_path / "model")
    (folder / "model.onnx").write_bytes(b"damaged")
    with pytest.raises(UnavailableError, match=r"could not load the model.*model\.onnx"):
        open_model(folder).load()
    (folder / "tokenizer.json").unlink()
    with pytest.raises(InvalidInputError, match=r"has no tokenizer\.json"):
        open_model(folder).load()


def test_model_is_loaded_again_after_its_files_are_repaired(tmp_path: Path) -> None:
    folder = save_cross_encoder(tmp_path / "model")
    backup = shutil.copy(folder / "model.onnx", tmp_path / "kept.onnx")
    (folder / "model.onnx").write_bytes(b"damaged")
    encoder = open_model(folder)
    with pytest.raises(UnavailableError):
        encoder.load()
    shutil.copy(backup, folder / "model.onnx")

    encoder.load()


def test_sample_texts_contain_only_words_of_the_tokenizer() -> None:
    unknown = make_tokenizer().token_to_id("[UNK]")
    texts = (QUERY, NEAR, FAR, FILLER)
    assert all(unknown not in make_tokenizer().encode(text).ids for text in texts)
