"""The BERT encoder of all-MiniLM-L6-v2 written as ONNX, from token ids to unit sentence vectors."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

Weights = dict[str, NDArray[Any]]

LAYERS = 6
HIDDEN = 384
HEADS = 12
LAYER_NORM_EPSILON = 1e-12
"""These four: config.json of sentence-transformers/all-MiniLM-L6-v2."""

OPSET = 20
"""The first with Gelu as one operator; LayerNormalization came with 17."""
IR_VERSION = 9
"""The format of that opset's time, so that older runtimes still read the file."""
MASKED = -10_000.0
"""What padding scores before the softmax: exp of it is 0 in float32, and it cannot overflow."""


class Graph:
    """Collects nodes and initialisers; every call returns the name of the tensor it made."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """Add a named constant tensor."""
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def ints(self, name: str, *values: int) -> str:
        """Add a constant vector of int64, as shapes and axes want it."""
        return self.constant(name, np.array(values, np.int64))

    def do(self, op: str, inputs: Sequence[str], *, output: str, **attributes: Any) -> str:
        """Add one node with one output, which names it too."""
        self.nodes.append(helper.make_node(op, inputs, [output], output, **attributes))
        return output


def sentence_encoder(weights: Weights) -> ModelProto:
    """Write the float32 graph: (batch, tokens) ids and mask in, (batch, 384) unit vectors out."""
    graph = Graph(_with_scaled_queries(weights))
    graph.ints("heads_shape", 0, 0, HEADS, HIDDEN // HEADS)
    graph.ints("hidden_shape", 0, 0, HIDDEN)
    penalty = _padding_penalty(graph)
    hidden = _embeddings(graph)
    for layer in range(LAYERS):
        hidden = _layer(graph, f"encoder.layer.{layer}", hidden=hidden, penalty=penalty)
    _pool(graph, hidden)
    return _model(graph)


def _embeddings(graph: Graph) -> str:
    weights = graph.weights
    words, scales = _int8_rows(weights["embeddings.word_embeddings.weight"])
    # Every token is of type 0, so that type's vector is a part of each position's.
    positions = (
        weights["embeddings.position_embeddings.weight"]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    rows = graph.do("Gather", [graph.constant("word_rows", words), "input_ids"], output="word_row")
    scale = graph.do(
        "Gather", [graph.constant("word_scales", scales), "input_ids"], output="word_scale"
    )
    word = graph.do(
        "Mul",
        [graph.do("Cast", [rows], output="word_float", to=TensorProto.FLOAT), scale],
        output="word",
    )
    length = graph.do("Shape", ["input_ids"], output="length", start=1, end=2)
    place = graph.do(
        "Slice",
        [graph.constant("positions", positions), graph.ints("zero", 0), length],
        output="place",
    )
    placed = graph.do("Add", [word, place], output="placed")
    return _normalised(graph, "embeddings.LayerNorm", inputs=placed)


def _int8_rows(table: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    # One scale per word: half the file is this table, and a single scale for all of it, which is
    # what onnxruntime's quantiser would give a Gather, drowns the small rows in rounding.
    scales = np.abs(table).max(axis=1, keepdims=True) / 127
    return np.rint(table / scales).astype(np.int8), scales.astype(np.float32)


def _padding_penalty(graph: Graph) -> str:
    mask = graph.do("Cast", ["attention_mask"], output="mask", to=TensorProto.FLOAT)
    padding = graph.do(
        "Sub", [graph.constant("one", np.ones(1, np.float32)), mask], output="padding"
    )
    penalty = graph.do(
        "Mul",
        [padding, graph.constant("masked", np.full(1, MASKED, np.float32))],
        output="penalties",
    )
    return graph.do("Unsqueeze", [penalty, graph.ints("to_scores", 1, 2)], output="penalty")


def _layer(graph: Graph, layer: str, *, hidden: str, penalty: str) -> str:
    attended = _attention(graph, f"{layer}.attention.self", hidden=hidden, penalty=penalty)
    mixed = _dense(graph, f"{layer}.attention.output.dense", inputs=attended)
    residual = graph.do("Add", [mixed, hidden], output=f"{layer}.attended")
    hidden = _normalised(graph, f"{layer}.attention.output.LayerNorm", inputs=residual)
    wide = _dense(graph, f"{layer}.intermediate.dense", inputs=hidden)
    bent = graph.do("Gelu", [wide], output=f"{layer}.gelu")
    narrow = _dense(graph, f"{layer}.output.dense", inputs=bent)
    residual = graph.do("Add", [narrow, hidden], output=f"{layer}.fed")
    return _normalised(graph, f"{layer}.output.LayerNorm", inputs=residual)


def _attention(graph: Graph, name: str, *, hidden: str, penalty: str) -> str:
    query = _heads(graph, f"{name}.query", hidden=hidden, order=[0, 2, 1, 3])
    key = _heads(graph, f"{name}.key", hidden=hidden, order=[0, 2, 3, 1])
    value = _heads(graph, f"{name}.value", hidden=hidden, order=[0, 2, 1, 3])
    scores = graph.do("MatMul", [query, key], output=f"{name}.scores")
    scores = graph.do("Add", [scores, penalty], output=f"{name}.masked")
    shares = graph.do("Softmax", [scores], output=f"{name}.shares", axis=-1)
    seen = graph.do("MatMul", [shares, value], output=f"{name}.seen")
    joined = graph.do("Transpose", [seen], output=f"{name}.joined", perm=[0, 2, 1, 3])
    return graph.do("Reshape", [joined, "hidden_shape"], output=f"{name}.context")


def _heads(graph: Graph, name: str, *, hidden: str, order: list[int]) -> str:
    projected = _dense(graph, name, inputs=hidden)
    split = graph.do("Reshape", [projected, "heads_shape"], output=f"{name}.split")
    return graph.do("Transpose", [split], output=f"{name}.heads", perm=order)


def _with_scaled_queries(weights: Weights) -> Weights:
    # Dividing the scores by sqrt(head width) is the same as dividing the query's weights, for free.
    scale = np.float32(math.sqrt(HIDDEN // HEADS))
    return {
        name: value / scale if ".attention.self.query." in name else value
        for name, value in weights.items()
    }


def _dense(graph: Graph, name: str, *, inputs: str) -> str:
    weights = graph.weights
    weight = graph.constant(f"{name}.weight", weights[f"{name}.weight"].T)
    product = graph.do("MatMul", [inputs, weight], output=f"{name}.product")
    bias = graph.constant(f"{name}.bias", weights[f"{name}.bias"])
    return graph.do("Add", [product, bias], output=f"{name}.sum")


def _normalised(graph: Graph, name: str, *, inputs: str) -> str:
    weights = graph.weights
    scale = graph.constant(f"{name}.weight", weights[f"{name}.weight"])
    bias = graph.constant(f"{name}.bias", weights[f"{name}.bias"])
    return graph.do(
        "LayerNormalization",
        [inputs, scale, bias],
        output=f"{name}.out",
        axis=-1,
        epsilon=LAYER_NORM_EPSILON,
    )


def _pool(graph: Graph, hidden: str) -> str:
    # The mean over real tokens only. Its divisor is left out: normalising to length 1 undoes it.
    kept = graph.do("Unsqueeze", ["mask", graph.ints("last", -1)], output="kept")
    real = graph.do("Mul", [hidden, kept], output="real")
    total = graph.do("ReduceSum", [real, graph.ints("tokens", 1)], output="total", keepdims=0)
    length = graph.do(
        "ReduceL2", [total, graph.ints("width", 1)], output="vector_length", keepdims=1
    )
    return graph.do("Div", [total, length], output="embedding")


def _model(graph: Graph) -> ModelProto:
    shape = ["batch", "tokens"]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, shape)
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", HIDDEN])
    body = helper.make_graph(graph.nodes, "all-minilm-l6-v2", inputs, [output], graph.initializers)
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(body, opset_imports=opsets, ir_version=IR_VERSION)
