"""A model that ends, blocks or bloats the process that uses it is refused, and no caller ends."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commonbrain_models.model_check import LIMITS, ModelUse, check_in_child
from commonbrain_models.model_records import ModelRecords
from commonbrain_models.onnx_cross_encoder import OnnxCrossEncoder
from commonbrain_models.onnx_folder import OnnxEmbedder
from onnx import TensorProto, helper, numpy_helper

from commonbrain.embeddings.interface import CAUTIOUS
from commonbrain.model.errors import UnavailableError
from commonbrain.model.limits import ChildLimits
from tests.onnx_models import INPUTS, make_tokenizer, save_cross_encoder, save_encoder, save_model

OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
CHAIN = 5_000
"""Functions that each call the next one: the runtime's stack ends before them."""


def save_nodes(folder: Path, nodes: Sequence[Any], **constants: object) -> None:
    """Replace the model of a folder; its nodes make `last_hidden_state` of `tokens`."""
    table = np.ones((make_tokenizer().get_vocab_size(), 8), np.float32)
    gather = helper.make_node("Gather", ["table", "input_ids"], ["tokens"])
    shape = ["batch", "length"]
    graph = helper.make_graph(
        [gather, *nodes],
        "hostile",
        [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in INPUTS],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*shape, 8])],
        [
            numpy_helper.from_array(np.asarray(value), name)
            for name, value in {"table": table, **constants}.items()
        ],
    )
    save_model(folder / "model.onnx", graph)


def crash(folder: Path) -> None:
    """Make the runtime call itself until its stack ends."""
    save_nodes(folder, [helper.make_node("f0", ["tokens"], ["last_hidden_state"], domain="own")])
    model = helper.make_model(helper.make_graph([], "", [], []))
    model.ParseFromString((folder / "model.onnx").read_bytes())
    model.opset_import.append(OPSETS[1])
    for at in range(CHAIN):
        follower = f"f{at + 1}" if at + 1 < CHAIN else "Identity"
        domain = "own" if at + 1 < CHAIN else ""
        call = helper.make_node(follower, ["a"], ["b"], domain=domain)
        model.functions.append(helper.make_function("own", f"f{at}", ["a"], ["b"], [call], OPSETS))
    (folder / "model.onnx").write_bytes(model.SerializeToString())


def loop(folder: Path) -> None:
    """Make the model repeat a step for centuries."""
    number, flag = TensorProto.FLOAT, TensorProto.BOOL
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["flag"], ["next_flag"]),
            helper.make_node("Identity", ["value"], ["next_value"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("round", TensorProto.INT64, []),
            helper.make_tensor_value_info("flag", flag, []),
            helper.make_tensor_value_info("value", number, None),
        ],
        [
            helper.make_tensor_value_info("next_flag", flag, []),
            helper.make_tensor_value_info("next_value", number, None),
        ],
    )
    node = helper.make_node("Loop", ["rounds", "on", "tokens"], ["last_hidden_state"], body=body)
    save_nodes(folder, [node], rounds=np.int64(2**62), on=np.bool_(1))


def eat(folder: Path) -> None:
    """Make the model of a few kilobytes ask for some gigabytes."""
    nodes = [
        helper.make_node("ConstantOfShape", ["many"], ["zeros"]),
        helper.make_node("ReduceSum", ["zeros"], ["zero"], keepdims=0),
        helper.make_node("Add", ["tokens", "zero"], ["last_hidden_state"]),
    ]
    save_nodes(folder, nodes, many=np.array([2**30]))


def panic(folder: Path) -> None:
    """Make the tokenizer stop in a way that handlers of exceptions do not catch."""
    content = json.loads((folder / "tokenizer.json").read_text())
    content["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": "/////w=="}
    (folder / "tokenizer.json").write_text(json.dumps(content))


TIGHT = ChildLimits(memory_bytes_max=2 * 2**30, silence_s_max=LIMITS.silence_s_max)
IMPATIENT = replace(TIGHT, silence_s_max=5.0)
"""A child on a busy machine may have begun by then."""
linux = pytest.mark.skipif(sys.platform != "linux", reason="the system has no such limits")
HARMS = [
    pytest.param(crash, TIGHT, "was ended by SIGSEGV", marks=linux),
    pytest.param(loop, IMPATIENT, "gave nothing for 5 s"),
    pytest.param(eat, TIGHT, r"could not (load|embed)", marks=linux),
    # With little memory, a panic of Rust aborts before it is an exception.
    pytest.param(panic, TIGHT, "PanicException|SIGABRT"),
]


@pytest.mark.parametrize(("harm", "limits", "reason"), HARMS)
def test_model_that_harms_its_user_is_refused_once(
    tmp_path: Path, harm: Callable[[Path], None], limits: ChildLimits, reason: str
) -> None:
    folder = save_encoder(tmp_path / "model")
    harm(folder)
    calls: list[ModelUse] = []

    def check(use: ModelUse) -> None:
        calls.append(use)
        check_in_child(use, limits=limits)

    embedder = OnnxEmbedder(
        folder, records=ModelRecords(), calibrate=lambda _: CAUTIOUS, check=check
    )
    for _ in range(2):
        with pytest.raises(UnavailableError, match=reason) as failure:
            _ = embedder.space
        assert failure.value.code == "embedder_down"
        assert str(folder) in (failure.value.hint or "")
    assert len(calls) == 1


def test_reranker_that_harms_its_user_is_refused(tmp_path: Path) -> None:
    folder = save_cross_encoder(tmp_path / "model")
    panic(folder)
    with pytest.raises(UnavailableError, match=r"The reranker onnx:.* is not used: "):
        OnnxCrossEncoder(folder).load()


def test_model_that_passed_is_not_checked_again_until_its_files_change(tmp_path: Path) -> None:
    folder, records = save_encoder(tmp_path / "model"), tmp_path / "records"
    calls: list[ModelUse] = []

    def embed() -> None:
        embedder = OnnxEmbedder(
            folder,
            records=ModelRecords(records),
            calibrate=lambda _: CAUTIOUS,
            check=calls.append,
        )
        embedder.query("Who keeps the vault code?")

    embed()
    embed()
    assert len(calls) == 1
    save_encoder(folder, seed=1)
    embed()
    assert len(calls) == 2


def test_sound_models_pass(tmp_path: Path) -> None:
    check = partial(check_in_child, limits=TIGHT)
    encoder = save_encoder(tmp_path / "encoder")
    embedder = OnnxEmbedder(
        encoder, records=ModelRecords(), calibrate=lambda _: CAUTIOUS, check=check
    )
    assert embedder.space.dimensions == embedder.query("Ann").size
    reranker = OnnxCrossEncoder(save_cross_encoder(tmp_path / "reranker"), check=check)
    assert len(reranker.scores("Who?", ["Ann."])) == 1
