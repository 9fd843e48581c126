"""The encoder of multilingual-e5-small as ONNX, from token ids to unit sentence vectors."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from packed import BLOCK, Packed

LAYER_NORM_EPSILON = 1e-12
"""config.json of intfloat/multilingual-e5-small."""

OPSET = 20
"""The first with Gelu as one operator; LayerNormalization came with 17, BitwiseAnd with 18."""
IR_VERSION = 9
"""The format of that opset's time, so that older runtimes still read the file."""

LOUD = {0: 318, 1: 1462, 2: 354, 4: 778, 5: 658, 6: 1152, 7: 413}
"""By layer the one neuron that gives 10 to 70 where no other gives 7, seen over 24 languages.

One scale covers all 1536 of them: because of this one, the others would be rounded so coarsely that
the vectors are off by 0.012 of cosine; without it they are off by 0.005.
"""


class Graph:
    """Collects nodes and initialisers; every call returns the name of the tensor it made."""

    def __init__(self, packed: Packed) -> None:
        self.packed = packed
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


def sentence_encoder(
    packed: Packed, *, centre: NDArray[np.float32], languages: NDArray[np.float32]
) -> ModelProto:
    """Write the float32 graph: ids (1, tokens) of one text in, a unit vector (1, hidden) out.

    Args:
        packed: The weights.
        centre: The mean of vectors, shape `(hidden,)`.
        languages: Orthonormal directions in which the means of languages differ, one a row.

    """
    graph = Graph(packed)
    graph.ints("heads_shape", 0, 0, packed.heads, packed.hidden // packed.heads)
    graph.ints("hidden_shape", 0, 0, packed.hidden)
    graph.ints("last", -1)
    graph.ints("first", 0)
    graph.ints("second", 1)
    hidden = _embeddings(graph)
    for layer in range(packed.layers):
        hidden = _layer(graph, f"l{layer}", hidden=hidden, loud=LOUD.get(layer))
    meaning = _meaning(graph, _pooled(graph, hidden), centre=centre, languages=languages)
    _unit(graph, meaning, output="embedding")
    return _model(graph)


def _embeddings(graph: Graph) -> str:
    # The words stay in the 4 bits that they come in: half a byte for each number is 48 MB, and
    # only the rows of a text's tokens are ever unpacked.
    packed = graph.packed
    per_row = packed.hidden // BLOCK
    nibbles, scales = packed.blocks("emb.word")
    rows = graph.constant("word_rows", nibbles.reshape(packed.words, per_row, BLOCK // 2))
    scale = graph.constant("word_scales", scales.reshape(packed.words, per_row, 1))
    row = graph.do("Gather", [rows, "input_ids"], output="word_row")
    low_bits, shift = (graph.constant(f"n{n}", np.array([n], np.uint8)) for n in (15, 4))
    low = graph.do("BitwiseAnd", [row, low_bits], output="low")
    high = graph.do("BitShift", [row, shift], output="high", direction="RIGHT")
    levels = graph.do("Concat", [low, high], output="levels", axis=-1)
    level = graph.do("Cast", [levels], output="level", to=TensorProto.FLOAT)
    zero = graph.constant("n8", np.array([8], np.float32))
    signed = graph.do("Sub", [level, zero], output="signed")
    half = graph.do("Gather", [scale, "input_ids"], output="word_scale")
    factor = graph.do("Cast", [half], output="word_factor", to=TensorProto.FLOAT)
    product = graph.do("Mul", [signed, factor], output="blocks")
    word = graph.do("Reshape", [product, graph.ints("row", 0, 0, packed.hidden)], output="word")
    # Every token is of type 0, so that type's vector is a part of each position's.
    positions = packed.weights("emb.pos", packed.positions, packed.hidden)
    kind = packed.weights("emb.type", 2, packed.hidden)[0]
    length = graph.do("Shape", ["input_ids"], output="length", start=1, end=2)
    place = graph.do(
        "Slice",
        [graph.constant("positions", positions + kind), graph.ints("zero", 0), length],
        output="place",
    )
    placed = graph.do("Add", [word, place], output="placed")
    return _normalised(graph, "emb.ln", inputs=placed)


def _layer(graph: Graph, layer: str, *, hidden: str, loud: int | None) -> str:
    attended = _attention(graph, layer, hidden=hidden)
    mixed = _dense(graph, f"{layer}.ao", inputs=attended)
    residual = graph.do("Add", [mixed, hidden], output=f"{layer}.attended")
    hidden = _normalised(graph, f"{layer}.aln", inputs=residual)
    wide = _dense(graph, f"{layer}.fi", inputs=hidden, without=loud)
    bent = graph.do("Gelu", [wide], output=f"{layer}.gelu")
    narrow = _dense(graph, f"{layer}.fo", inputs=bent)
    if loud is not None:
        part = _neuron(graph, layer, number=loud, hidden=hidden)
        narrow = graph.do("Add", [narrow, part], output=f"{layer}.both")
    residual = graph.do("Add", [narrow, hidden], output=f"{layer}.fed")
    return _normalised(graph, f"{layer}.oln", inputs=residual)


def _neuron(graph: Graph, layer: str, *, number: int, hidden: str) -> str:
    """Write what one neuron adds to the layer's output, in products that are not quantised."""
    packed = graph.packed
    bias = packed.weights(f"{layer}.fi.b", -1)
    inward = packed.weights(f"{layer}.fi.w", len(bias), -1)[number]
    outward = packed.weights(f"{layer}.fo.w", -1, len(bias))[:, number]
    terms = graph.do(
        "Mul", [hidden, graph.constant(f"{layer}.inward", inward)], output=f"{layer}.terms"
    )
    total = graph.do("ReduceSum", [terms, "last"], output=f"{layer}.one", keepdims=1)
    offset = graph.constant(f"{layer}.offset", bias[number : number + 1])
    shifted = graph.do("Add", [total, offset], output=f"{layer}.shifted")
    bent = graph.do("Gelu", [shifted], output=f"{layer}.loud")
    column = graph.constant(f"{layer}.outward", outward)
    return graph.do("Mul", [bent, column], output=f"{layer}.part")


def _attention(graph: Graph, layer: str, *, hidden: str) -> str:
    query = _heads(graph, f"{layer}.q", hidden=hidden, order=[0, 2, 1, 3])
    key = _heads(graph, f"{layer}.k", hidden=hidden, order=[0, 2, 3, 1])
    value = _heads(graph, f"{layer}.v", hidden=hidden, order=[0, 2, 1, 3])
    scores = graph.do("MatMul", [query, key], output=f"{layer}.scores")
    shares = graph.do("Softmax", [scores], output=f"{layer}.shares", axis=-1)
    seen = graph.do("MatMul", [shares, value], output=f"{layer}.seen")
    joined = graph.do("Transpose", [seen], output=f"{layer}.joined", perm=[0, 2, 1, 3])
    return graph.do("Reshape", [joined, "hidden_shape"], output=f"{layer}.context")


def _heads(graph: Graph, name: str, *, hidden: str, order: list[int]) -> str:
    projected = _dense(graph, name, inputs=hidden)
    split = graph.do("Reshape", [projected, "heads_shape"], output=f"{name}.split")
    return graph.do("Transpose", [split], output=f"{name}.heads", perm=order)


def _dense(graph: Graph, name: str, *, inputs: str, without: int | None = None) -> str:
    packed = graph.packed
    bias = packed.weights(f"{name}.b", -1)
    weight = packed.weights(f"{name}.w", len(bias), -1)
    if name.endswith(".q"):
        # As good as dividing the scores by sqrt(head width), and free.
        scale = np.float32(math.sqrt(packed.hidden // packed.heads))
        weight, bias = weight / scale, bias / scale
    if without is not None:
        kept = np.arange(len(bias)) != without
        weight, bias = weight * kept[:, None], bias * kept
    product = graph.do(
        "MatMul",
        [inputs, graph.constant(f"{name}.weight", weight.T)],
        output=f"{name}.product",
    )
    return graph.do("Add", [product, graph.constant(f"{name}.bias", bias)], output=f"{name}.sum")


def _normalised(graph: Graph, name: str, *, inputs: str) -> str:
    scale, bias = (
        graph.constant(f"{name}.{part}", graph.packed.weights(f"{name}.{part}", -1))
        for part in "wb"
    )
    return graph.do(
        "LayerNormalization",
        [inputs, scale, bias],
        output=f"{name}.out",
        axis=-1,
        epsilon=LAYER_NORM_EPSILON,
    )


def _pooled(graph: Graph, hidden: str) -> str:
    """Add the tokens of the text; of its prefix only the colon, so that there always is one."""
    colon = [piece for piece, _ in graph.packed.pieces].index(":")
    is_colon = graph.do(
        "Equal",
        ["input_ids", graph.constant("colon", np.array([colon], np.int64))],
        output="is_colon",
    )
    flags = graph.do("Cast", [is_colon], output="colons", to=TensorProto.INT32)
    start = graph.do("ArgMax", [flags], output="prefix", axis=1, keepdims=0)
    text = graph.do("Slice", [hidden, start, "last", "second"], output="text")
    total = graph.do("ReduceSum", [text, "second"], output="total", keepdims=0)
    return _unit(graph, total, output="raw")


def _meaning(
    graph: Graph, vector: str, *, centre: NDArray[np.float32], languages: NDArray[np.float32]
) -> str:
    """Take away what all texts have in common, and what all texts of a language have."""
    apart = graph.do("Sub", [vector, graph.constant("centre", centre)], output="apart")
    directions = graph.constant("languages", languages)
    # As sums, because products of matrices would be quantised.
    terms = graph.do("Mul", [apart, directions], output="terms")
    shares = graph.do("ReduceSum", [terms, "second"], output="shares", keepdims=1)
    parts = graph.do("Mul", [shares, directions], output="parts")
    language = graph.do("ReduceSum", [parts, "first"], output="language", keepdims=1)
    return graph.do("Sub", [apart, language], output="meaning")


def _unit(graph: Graph, vector: str, *, output: str) -> str:
    length = graph.do("ReduceL2", [vector, "second"], output=f"{output}_length", keepdims=1)
    return graph.do("Div", [vector, length], output=output)


def _model(graph: Graph) -> ModelProto:
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "tokens"])
    output = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [1, graph.packed.hidden])
    body = helper.make_graph(
        graph.nodes, "multilingual-e5-small", [ids], [output], graph.initializers
    )
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(body, opset_imports=opsets, ir_version=IR_VERSION)
