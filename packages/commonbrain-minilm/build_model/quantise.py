"""Quantises the encoder's matrices to int8, one scale per output channel."""

# onnx and onnxruntime bring no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic

MODEL, UNSIGNED, WEIGHTS = "model.onnx", "model-unsigned.onnx", "model.onnx.data"


def quantised(model: onnx.ModelProto) -> dict[str, bytes]:
    """Give the files by name: the graph, the same with unsigned weights, and the weights of both.

    Activations are scaled while it runs, over all of one call's tokens. Per channel, because one
    scale per matrix costs 3 points of nDCG@10 on SciFact.
    """
    with tempfile.TemporaryDirectory() as folder:
        plain, small = Path(folder, "plain.onnx"), Path(folder, MODEL)
        onnx.save(model, plain)
        quantize_dynamic(
            plain,
            small,
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            weight_type=QuantType.QInt8,
            # Attention multiplies two activations: quantising those too costs more than it saves.
            extra_options={"MatMulConstBOnly": True},
        )
        # The runtime maps a file of weights: it copies none of it, and processes share its memory.
        apart = {"save_as_external_data": True, "location": WEIGHTS}
        onnx.save(onnx.load(small), small, **apart)
        weights = bytearray(Path(folder, WEIGHTS).read_bytes())
        graph = onnx.load(small, load_external_data=False)
        _to_unsigned(graph, weights)
        return {
            WEIGHTS: bytes(weights),
            UNSIGNED: graph.SerializeToString(),
            MODEL: small.read_bytes(),
        }


def _to_unsigned(graph: onnx.ModelProto, weights: bytearray) -> None:
    """Shift weights and their zero points by 128, and append those that are kept apart.

    Older processors need unsigned weights to sum exactly, and the runtime would take longer to
    convert them than to load the rest.
    """
    tensors = {tensor.name: tensor for tensor in graph.graph.initializer}
    products = [node for node in graph.graph.node if node.op_type == "MatMulInteger"]
    for name in dict.fromkeys(node.input[at] for node in products for at in (1, 3)):
        tensor = tensors[name]
        if not tensor.external_data:
            shifted = onnx.numpy_helper.to_array(tensor).view(np.uint8) ^ 128
            tensor.CopyFrom(onnx.numpy_helper.from_array(shifted, name))
            continue
        tensor.data_type = onnx.TensorProto.UINT8
        place = {entry.key: entry for entry in tensor.external_data}
        offset, length = int(place["offset"].value), int(place["length"].value)
        place["offset"].value = str(len(weights))
        signed = np.frombuffer(weights[offset : offset + length], np.uint8)
        weights += (signed ^ 128).tobytes()
