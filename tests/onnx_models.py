"""Small ONNX models in folders of the format of sentence-transformers, made of word vectors."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from commonbrain_models.calibration import read_pairs
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from commonbrain.testing.embedder_contract import TEXTS

WIDTH = 64
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
OWN_TEXTS = (
    "The weather stayed mild and there was not much to say.",
    "The vault code is kept by Miriam Okafor. Who keeps the vault code?",
    "Ann lives in Lisbon. The build broke. query: passage:",
)
INPUTS = ("input_ids", "attention_mask")


def make_tokenizer() -> Tokenizer:
    """Make a tokenizer of whole words that adds [CLS] and [SEP], as BERT's does."""
    splitter, lower = pre_tokenizers.BertPreTokenizer(), normalizers.BertNormalizer(lowercase=True)
    texts = [
        *OWN_TEXTS,
        *TEXTS,
        *(text for pair in read_pairs() for text in (pair.one, pair.other)),
    ]
    words = {
        word for text in texts for word, _ in splitter.pre_tokenize_str(lower.normalize_str(text))
    }
    vocabulary = {word: at for at, word in enumerate([*SPECIAL, *sorted(words)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))  # noqa: S106 a word, no secret
    tokenizer.normalizer = lower
    tokenizer.pre_tokenizer = splitter
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    return tokenizer


def word_vectors(tokenizer: Tokenizer, *, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Draw a vector for each word; special tokens and punctuation weigh little."""
    table = np.random.default_rng(seed).standard_normal((tokenizer.get_vocab_size(), WIDTH))
    for word, at in tokenizer.get_vocab().items():
        if word in SPECIAL or not word.isalnum():
            table[at] *= 0.01
    return table.astype(np.float32)


def save_graph(
    path: Path,
    table: np.ndarray[Any, np.dtype[np.float32]],
    *,
    inputs: Sequence[str] = INPUTS,
    outputs: Mapping[str, str] = {"last_hidden_state": "tokens"},
    kind: int = TensorProto.INT64,
) -> None:
    """Write a model of word vectors; an output is `tokens` or `mean`."""
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["tokens"])]
    constants = [numpy_helper.from_array(table, "table")]
    if "token_type_ids" in inputs:
        types = np.zeros((2, table.shape[1]), np.float32)
        constants.append(numpy_helper.from_array(types, "types"))
        nodes[0] = helper.make_node("Gather", ["table", "input_ids"], ["words"])
        nodes += [
            helper.make_node("Gather", ["types", "token_type_ids"], ["type_vectors"]),
            helper.make_node("Add", ["words", "type_vectors"], ["tokens"]),
        ]
    constants.append(numpy_helper.from_array(np.array([1], np.int64), "axis"))
    nodes.append(helper.make_node("ReduceMean", ["tokens", "axis"], ["mean"], keepdims=0))
    shapes: dict[str, list[Any]] = {
        "tokens": ["batch", "length", table.shape[1]],
        "mean": ["batch", table.shape[1]],
    }
    nodes += [helper.make_node("Identity", [what], [name]) for name, what in outputs.items()]
    graph = helper.make_graph(
        nodes,
        "words",
        [helper.make_tensor_value_info(name, kind, ["batch", "length"]) for name in inputs],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[what])
            for name, what in outputs.items()
        ],
        constants,
    )
    save_model(path, graph)


def save_model(path: Path, graph: Any) -> None:  # noqa: ANN401 it has no types
    """Write the file of a model."""
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())


def save_cross_encoder(
    folder: Path,
    *,
    logits: int = 1,
    output: str = "logits",
    rank: int = 2,
    max_tokens: int = 32,
) -> Path:
    """Write a folder whose model scores the words that a query and a text share.

    A logit is the product of the summed word vectors of both; with two, the first is its negative.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer()
    words = tokenizer.get_vocab()
    # One dimension per word makes the product the number of shared words.
    table = np.eye(len(words), dtype=np.float32)
    table[[words[word] for word in words if word in SPECIAL or not word.isalnum()]] = 0
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(word, words[word]) for word in ("[CLS]", "[SEP]")],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(folder / "config.json", {"max_position_embeddings": max_tokens})
    constants = {
        "table": table,
        "one": np.array(1, np.float32),
        "tokens_axis": np.array([1], np.int64),
        "last": np.array([2], np.int64),
        "signs": np.array([[-1, 1] if logits == 2 else [1] * logits], np.float32),
        "shape": np.array([-1, *[1] * (rank - 2), logits], np.int64),
    }
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["tokens"]),
        helper.make_node("Cast", ["token_type_ids"], ["types"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["types", "last"], ["is_text"]),
        helper.make_node("Sub", ["one", "is_text"], ["is_query"]),
        helper.make_node("Mul", ["tokens", "is_text"], ["of_text"]),
        helper.make_node("Mul", ["tokens", "is_query"], ["of_query"]),
        helper.make_node("ReduceSum", ["of_text", "tokens_axis"], ["text"], keepdims=0),
        helper.make_node("ReduceSum", ["of_query", "tokens_axis"], ["query"], keepdims=0),
        helper.make_node("Mul", ["text", "query"], ["shared"]),
        helper.make_node("ReduceSum", ["shared", "tokens_axis"], ["logit"], keepdims=1),
        helper.make_node("Mul", ["logit", "signs"], ["signed"]),
        helper.make_node("Reshape", ["signed", "shape"], [output]),
    ]
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    graph = helper.make_graph(
        nodes,
        "shared words",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
            for name in inputs
        ],
        [
            helper.make_tensor_value_info(
                output, TensorProto.FLOAT, ["batch", *["length"] * (rank - 2), logits]
            )
        ],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    save_model(folder / "model.onnx", graph)
    return folder


def trust(*_: object) -> None:
    """Use a model without a child process, which takes a second."""


def write_json(path: Path, content: object) -> None:
    """Write a file of a model's folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def save_encoder(
    folder: Path,
    *,
    pooling: object = None,
    prompts: Mapping[str, str] | None = None,
    file: str = "model.onnx",
    seed: int = 0,
    **graph: Any,  # noqa: ANN401 those of `save_graph`
) -> Path:
    """Write a folder as sentence-transformers would, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    save_graph(folder / file, word_vectors(tokenizer, seed=seed), **graph)
    modules = ("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")
    write_json(
        folder / "modules.json",
        [
            {
                "idx": at,
                "name": str(at),
                "path": path,
                "type": f"sentence_transformers.models.{one}",
            }
            for at, (path, one) in enumerate(modules)
        ],
    )
    write_json(
        folder / "1_Pooling" / "config.json",
        pooling or {"word_embedding_dimension": WIDTH, "pooling_mode_mean_tokens": True},
    )
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 128})
    if prompts is not None:
        write_json(folder / "config_sentence_transformers.json", {"prompts": prompts})
    return folder


def save_safetensors(
    path: Path, tensors: Mapping[str, np.ndarray[Any, np.dtype[np.float32]]]
) -> None:
    """Write tensors as huggingface/safetensors does."""
    header: dict[str, object] = {}
    data = b""
    for name, tensor in tensors.items():
        content = tensor.astype("<f4").tobytes()
        header[name] = {
            "dtype": "F32",
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
