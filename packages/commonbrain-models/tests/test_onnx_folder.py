"""Embedders in a folder of the user: what its files say, and errors that name a file."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import commonbrain_minilm
import numpy as np
import pytest
from commonbrain_models.calibration import calibrate
from commonbrain_models.model_records import ModelRecords
from commonbrain_models.onnx_folder import OnnxEmbedder
from commonbrain_models.pooling import ACTIVATIONS, POOLINGS
from onnx import ModelProto, TensorProto
from onnx.external_data_helper import set_external_data
from tokenizers import normalizers

from commonbrain.embeddings.interface import CAUTIOUS, Embedder, Thresholds
from commonbrain.embeddings.local import SPACE, MiniLmEmbedder
from commonbrain.model.errors import InvalidInputError, UnavailableError
from tests.onnx_models import (
    WIDTH,
    make_tokenizer,
    save_encoder,
    save_graph,
    save_safetensors,
    trust,
    word_vectors,
    write_json,
)

TEXT = "Ann lives in Lisbon"
MEASURED = Thresholds(similar=0.7, relevance=0.1, answer=0.3, origin="calibrated")


def open_folder(
    path: Path,
    *,
    records: Path | None = None,
    measure: Callable[[Embedder], Thresholds | None] = lambda _: MEASURED,
) -> OnnxEmbedder:
    return OnnxEmbedder(
        path, records=ModelRecords(records), calibrate=measure, threads=1, check=trust
    )


def move_weights(folder: Path, location: str) -> None:
    """Move the word vectors of a model into a file of their own."""
    model = ModelProto.FromString((folder / "model.onnx").read_bytes())
    table = model.graph.initializer[0]
    (folder / location).parent.mkdir(exist_ok=True)
    (folder / location).write_bytes(table.raw_data)
    set_external_data(table, location)
    table.ClearField("raw_data")
    (folder / "model.onnx").write_bytes(model.SerializeToString())


def token_vectors(text: str) -> np.ndarray:
    tokenizer = make_tokenizer()
    return word_vectors(tokenizer)[tokenizer.encode(text).ids]


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def test_embedder_applies_the_pooling_mode_of_the_folder(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for name in POOLINGS:
        with subtests.test(name=name):
            folder = save_encoder(tmp_path / name, pooling={"pooling_mode": name})
            tokens = token_vectors(TEXT)
            weights = np.arange(1, len(tokens) + 1)[:, np.newaxis]
            expected = {
                "cls": tokens[0],
                "max": tokens.max(0),
                "mean": tokens.mean(0),
                "mean_sqrt_len_tokens": tokens.sum(0) / np.sqrt(len(tokens)),
                "weightedmean": (tokens * weights).sum(0) / weights.sum(),
                "lasttoken": tokens[-1],
            }

            assert open_folder(folder).query(TEXT) == pytest.approx(unit(expected[name]), abs=1e-5)


def test_several_pooling_modes_of_older_files_are_concatenated_in_order(tmp_path: Path) -> None:
    modes = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}
    folder = save_encoder(tmp_path / "model", pooling={"word_embedding_dimension": WIDTH, **modes})
    tokens = token_vectors(TEXT)

    embedder = open_folder(folder)

    assert embedder.space.dimensions == 2 * WIDTH
    joined = unit(np.concatenate([tokens[0], tokens.mean(0)]))
    assert embedder.query(TEXT) == pytest.approx(joined, abs=1e-5)


def test_prefixes_of_queries_and_passages_come_from_the_folder(tmp_path: Path) -> None:
    prompts = {"query": "query: ", "passage": "passage: "}
    plain = open_folder(save_encoder(tmp_path / "plain"))
    embedder = open_folder(save_encoder(tmp_path / "model", prompts=prompts))

    (passage,) = embedder.passages([TEXT])

    assert embedder.query(TEXT) == pytest.approx(plain.query(f"query: {TEXT}"), abs=1e-6)
    assert passage[0] == pytest.approx(plain.query(f"passage: {TEXT}"), abs=1e-6)


def test_each_window_of_a_long_text_begins_with_the_prefix(tmp_path: Path) -> None:
    folder = save_encoder(
        tmp_path / "model", prompts={"document": "passage: "}, pooling={"pooling_mode": "cls"}
    )
    # The second token is the prefix.
    save_graph(folder / "model.onnx", word_vectors(make_tokenizer()))
    write_json(folder / "1_Pooling" / "config.json", {"pooling_mode": "max"})
    text = "Ann lives in Lisbon and the build broke. " * 100
    with_prefix, plain = (
        open_folder(folder),
        open_folder(save_encoder(tmp_path / "plain", pooling={"pooling_mode": "max"})),
    )

    (windows,) = with_prefix.passages([text])

    expected = plain.query("passage: Ann lives in Lisbon and the build broke.")
    assert len(windows) > 5
    assert (windows[:-1] @ expected).min() > 0.99


def test_prefix_is_excluded_from_pooling_if_configured(tmp_path: Path) -> None:
    folder = save_encoder(
        tmp_path / "model",
        prompts={"query": "query: "},
        pooling={"pooling_mode": "mean", "include_prompt": False},
    )
    # After [CLS], `query` and `:`.
    expected = unit(token_vectors(f"query: {TEXT}")[3:].mean(0))

    assert open_folder(folder).query(TEXT) == pytest.approx(expected, abs=1e-5)


def test_excluded_prefix_does_not_change_weights_of_other_tokens(tmp_path: Path) -> None:
    folder = save_encoder(
        tmp_path / "model",
        prompts={"query": "query: "},
        pooling={"pooling_mode": "weightedmean", "include_prompt": False},
    )
    tokens = token_vectors(f"query: {TEXT}")
    weights = np.arange(1, len(tokens) + 1)[:, np.newaxis]
    expected = unit((tokens * weights)[3:].sum(0))

    assert open_folder(folder).query(TEXT) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("sentence_bert_config.json", {"max_seq_length": 32}),
        ("tokenizer_config.json", {"model_max_length": 32}),
        ("config.json", {"max_position_embeddings": 32}),
    ],
)
def test_windows_are_limited_to_the_maximum_length_of_the_model(
    tmp_path: Path, name: str, content: object
) -> None:
    folder = save_encoder(tmp_path / "model")
    (folder / "sentence_bert_config.json").unlink()
    write_json(folder / name, content)
    text = "Lisbon " * 30 + "Okafor " * 30

    (windows,) = open_folder(folder).passages([text])

    assert len(windows) == 3


def test_texts_are_lowercased_if_the_folder_configures_it(tmp_path: Path) -> None:
    as_is, lowered = (save_encoder(tmp_path / name) for name in ("plain", "lowered"))
    write_json(lowered / "sentence_bert_config.json", {"do_lower_case": True})
    for folder in (as_is, lowered):
        cased = make_tokenizer()
        cased.normalizer = normalizers.BertNormalizer(lowercase=False)
        cased.save(str(folder / "tokenizer.json"))
    plain, embedder = open_folder(as_is), open_folder(lowered)
    assert (embedder.query("THE BUILD BROKE") == plain.query("the build broke")).all()
    assert (plain.query("THE BUILD BROKE") != plain.query("the build broke")).any()
    assert embedder.space.name != plain.space.name


def test_tokenizer_without_a_length_limit_gets_windows_of_the_default_length(
    tmp_path: Path,
) -> None:
    folder = save_encoder(tmp_path / "model")
    (folder / "sentence_bert_config.json").unlink()
    write_json(folder / "tokenizer_config.json", {"model_max_length": 1e30})

    (windows,) = open_folder(folder).passages(["Lisbon " * 190])

    assert len(windows) == 1


@pytest.mark.parametrize(
    "inputs",
    [
        ("input_ids",),
        ("input_ids", "attention_mask", "token_type_ids"),
        ("input_ids", "attention_mask", "position_ids"),
    ],
)
@pytest.mark.parametrize("kind", [TensorProto.INT64, TensorProto.INT32])
def test_model_receives_the_inputs_that_it_declares(
    tmp_path: Path, inputs: tuple[str, ...], kind: int
) -> None:
    usual = open_folder(save_encoder(tmp_path / "usual")).query(TEXT)
    folder = save_encoder(tmp_path / "model", inputs=inputs, kind=kind)

    assert open_folder(folder).query(TEXT) == pytest.approx(usual, abs=1e-6)


@pytest.mark.parametrize(
    "outputs",
    [
        {"token_embeddings": "tokens"},
        {"pooler_output": "mean", "hidden": "tokens"},
        {"token_embeddings": "tokens", "sentence_embedding": "mean"},
        {"text_embeds": "mean"},
    ],
    ids=", ".join,
)
def test_outputs_with_other_names_are_found(tmp_path: Path, outputs: dict[str, str]) -> None:
    usual = open_folder(save_encoder(tmp_path / "usual")).query(TEXT)
    folder = save_encoder(tmp_path / "model", outputs=outputs)

    assert open_folder(folder).query(TEXT) == pytest.approx(usual, abs=1e-5)


def test_dense_layer_follows_pooling_and_sets_the_dimensions(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for activation in ACTIVATIONS:
        with subtests.test(activation=activation):
            folder = save_encoder(tmp_path / activation)
            modules = json.loads((folder / "modules.json").read_text())
            dense = {
                "idx": 2,
                "name": "2",
                "path": "2_Dense",
                "type": "sentence_transformers.models.Dense",
            }
            write_json(folder / "modules.json", [*modules[:2], dense])
            write_json(
                folder / "2_Dense" / "config.json",
                {
                    "in_features": WIDTH,
                    "out_features": 8,
                    "activation_function": f"torch.nn.{activation}",
                },
            )
            weight = np.random.default_rng(1).standard_normal((8, WIDTH)).astype(np.float32)
            bias = np.full(8, 0.5, np.float32)
            save_safetensors(
                folder / "2_Dense" / "model.safetensors",
                {"linear.weight": weight, "linear.bias": bias},
            )
            made = weight @ token_vectors(TEXT).mean(0) + bias
            expected = {"Identity": made, "Tanh": np.tanh(made), "ReLU": np.maximum(made, 0)}[
                activation
            ]

            embedder = open_folder(folder)

            assert embedder.space.dimensions == 8
            assert embedder.query(TEXT) == pytest.approx(unit(expected), abs=1e-5)


def test_model_variant_is_selected_by_the_path_of_its_file(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "model", file="onnx/model_quantized.onnx")

    with pytest.raises(InvalidInputError) as failure:
        _ = open_folder(folder).space

    assert failure.value.hint == f"Name the file, as in onnx:{folder}/onnx/model_quantized.onnx."
    assert open_folder(folder / "onnx" / "model_quantized.onnx").space.dimensions == WIDTH


def test_model_in_the_onnx_subfolder_is_found(tmp_path: Path) -> None:
    assert open_folder(save_encoder(tmp_path / "model", file="onnx/model.onnx")).space


def test_copied_model_has_the_same_embedding_space_and_other_models_have_others(
    tmp_path: Path,
) -> None:
    folder = save_encoder(tmp_path / "model")
    copy = shutil.copytree(folder, tmp_path / "copy")
    other_weights = save_encoder(tmp_path / "weights", seed=1)
    other_pooling = save_encoder(tmp_path / "pooling", pooling={"pooling_mode": "max"})
    other_prefix = save_encoder(tmp_path / "prefix", prompts={"document": "passage: "})

    name = open_folder(folder).space.name

    assert open_folder(copy).space.name == name
    others = {open_folder(one).space.name for one in (other_weights, other_pooling, other_prefix)}
    assert len(others - {name}) == 3


def test_change_in_a_separate_weights_file_changes_the_embedding_space(
    tmp_path: Path,
) -> None:
    folder = save_encoder(tmp_path / "model")
    move_weights(folder, "weights.bin")
    before = open_folder(folder).space.name

    (folder / "weights.bin").write_bytes(word_vectors(make_tokenizer(), seed=1).tobytes())

    assert open_folder(folder).space.name != before


def test_texts_and_other_models_do_not_change_the_embedding_space(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "model")
    before = open_folder(folder).space.name

    for name in ("README.md", "quantized.onnx", "quantized.onnx_data", ".lock"):
        (folder / name).write_bytes(b"other")

    assert open_folder(folder).space.name == before


def test_links_to_a_cache_with_the_model_and_its_weights_are_followed(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "model")
    move_weights(folder, "model.onnx_data")
    name = open_folder(folder).space.name
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    for one in ("model.onnx", "model.onnx_data"):
        (folder / one).rename(blobs / one)
        (folder / one).symlink_to(blobs / one)

    assert open_folder(folder).space.name == name


def test_weights_outside_the_folder_are_refused(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "model")
    move_weights(folder, "../weights.bin")

    with pytest.raises(UnavailableError, match="escapes model directory"):
        _ = open_folder(folder).space


def test_link_to_weights_outside_the_folder_is_refused(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "model")
    move_weights(folder, "weights.bin")
    (folder / "weights.bin").rename(tmp_path / "elsewhere.bin")
    (folder / "weights.bin").symlink_to(tmp_path / "elsewhere.bin")

    with pytest.raises(UnavailableError, match="escapes model directory"):
        _ = open_folder(folder).space


def test_missing_weights_are_named_in_the_error(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "model")
    move_weights(folder, "weights.bin")
    (folder / "weights.bin").unlink()

    with pytest.raises(UnavailableError, match=r"weights\.bin"):
        _ = open_folder(folder).space


def test_thresholds_of_a_model_are_measured_once_and_shared_through_the_records(
    tmp_path: Path,
) -> None:
    folder, measured = save_encoder(tmp_path / "model"), list[Embedder]()

    def measure(embedder: Embedder) -> Thresholds:
        measured.append(embedder)
        return MEASURED

    spaces = [
        open_folder(folder, records=tmp_path / "records", measure=measure).space for _ in range(3)
    ]

    assert len(measured) == 1
    assert {one.name for one in spaces} == {spaces[0].name}
    assert spaces[2].thresholds == MEASURED


def test_embedding_space_of_a_measured_model_is_known_without_loading_it(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "model")
    _ = open_folder(folder, records=tmp_path / "records").space
    again = open_folder(folder, records=tmp_path / "records")

    assert again.space.dimensions == WIDTH
    assert not again.is_loaded


def test_model_with_a_damaged_record_is_measured_again(tmp_path: Path) -> None:
    folder, records = save_encoder(tmp_path / "model"), tmp_path / "records"
    space = open_folder(folder, records=records).space
    for one in records.glob("*.json"):
        one.write_text("{", encoding="utf-8")

    assert open_folder(folder, records=records).space == space


def test_query_fails_if_the_model_files_changed_since_they_were_opened(tmp_path: Path) -> None:
    folder, records = save_encoder(tmp_path / "model"), tmp_path / "records"
    _ = open_folder(folder, records=records).space
    embedder = open_folder(folder, records=records)
    _ = embedder.space
    save_encoder(folder, seed=1)

    with pytest.raises(UnavailableError, match="changed since it was opened"):
        embedder.query(TEXT)


def test_model_without_fitting_thresholds_gets_cautious_ones(tmp_path: Path) -> None:
    space = open_folder(save_encoder(tmp_path / "model"), measure=lambda _: None).space

    assert space.thresholds == CAUTIOUS


def test_shipped_model_opened_as_a_folder_has_the_same_vectors_and_thresholds(
    tmp_path: Path,
) -> None:
    for path in commonbrain_minilm.FILES:
        shutil.copy(path, tmp_path)
    embedder, shipped = open_folder(tmp_path, measure=calibrate), MiniLmEmbedder(threads=1)

    space = embedder.space

    assert (embedder.query(TEXT) == shipped.query(TEXT)).all()
    assert space.dimensions == SPACE.dimensions
    # Processors round the model's sums differently.
    assert space.similar_threshold == pytest.approx(SPACE.similar_threshold, abs=0.03)
    assert space.relevance_threshold == pytest.approx(SPACE.relevance_threshold, abs=0.03)
    assert space.answer_threshold == pytest.approx(SPACE.answer_threshold, abs=0.03)


Damage = Callable[[Path], object]


DAMAGES: list[tuple[Damage, str, str]] = [
    (shutil.rmtree, "There is no model at", "onnx:FOLDER"),
    (lambda at: (at / "model.onnx").unlink(), "neither model.onnx nor", "Export"),
    (lambda at: (at / "tokenizer.json").unlink(), "no tokenizer.json", "Copy it"),
    (
        lambda at: (at / "1_Pooling/config.json").unlink(),
        "1_Pooling/config.json is missing",
        '{"pooling_mode": "mean"}',
    ),
    (
        lambda at: write_json(at / "1_Pooling/config.json", {"pooling_mode": "best"}),
        "1_Pooling/config.json has no pooling that is known: 'best'",
        "Known are cls",
    ),
    (
        lambda at: (at / "modules.json").write_text("["),
        "modules.json cannot be read",
        "Copy it",
    ),
    (
        lambda at: write_json(at / "modules.json", [{"path": "", "type": "models.LSTM"}]),
        "modules.json has a module 'LSTM'",
        "Supported are",
    ),
    (
        lambda at: write_json(at / "modules.json", [{"path": "2", "type": "models.Dense"}]),
        "names the folder 2, which does not exist",
        "Copy it",
    ),
    *(
        (
            lambda at, path=path, kind=kind: write_json(
                at / "modules.json", [{"path": path, "type": f"models.{kind}"}]
            ),
            "which is outside the folder",
            "Copy the module",
        )
        for path in ("../other", "/other", "a/../../other", "C:other")
        for kind in ("Pooling", "Dense")
    ),
    (
        lambda at: write_json(at / "sentence_bert_config.json", {"max_seq_length": 2}),
        "limits texts to 2 tokens",
        "Correct",
    ),
    (
        lambda at: save_graph(
            at / "model.onnx",
            word_vectors(make_tokenizer()),
            inputs=("input_ids", "past_key_values.0.key"),
        ),
        "has the input 'past_key_values.0.key'",
        "feature extraction",
    ),
    (
        lambda at: save_graph(
            at / "model.onnx",
            word_vectors(make_tokenizer()),
            outputs={"pooler_output": "mean"},
        ),
        "has no output of vectors, but pooler_output",
        "feature extraction",
    ),
]


def test_error_for_an_invalid_folder_names_the_file_and_the_next_step(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for number, (damage, message, hint) in enumerate(DAMAGES):
        with subtests.test(message=message, hint=hint):
            folder = save_encoder(tmp_path / str(number))
            damage(folder)

            with pytest.raises(InvalidInputError) as failure:
                _ = open_folder(folder).space

            assert message in failure.value.message
            assert str(folder) in failure.value.message
            assert hint in (failure.value.hint or "")


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_damaged_model_is_reported_as_unavailable(tmp_path: Path, name: str) -> None:
    folder = save_encoder(tmp_path / "model")
    (folder / name).write_bytes(b"\x08\x01damaged")

    with pytest.raises(UnavailableError) as failure:
        _ = open_folder(folder).space

    assert failure.value.code == "embedder_down"
    assert str(folder) in (failure.value.hint or "")
