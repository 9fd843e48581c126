"""Quantises the encoder's matrices to int8, one scale per output channel."""

# onnx and onnxruntime bring no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

import tempfile
from pathlib import Path

import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic

MODEL, WEIGHTS = "model.onnx", "model.onnx.data"


def quantised(model: onnx.ModelProto) -> dict[str, bytes]:
    """Give the files by name: the graph, and its weights.

    Activations are scaled while it runs, over all tokens of a text. A second graph with unsigned
    weights, as all-MiniLM-L6-v2 has one, would add a quarter to the size of the wheel; processors
    that need it convert the weights when they load them.
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
        return {name: Path(folder, name).read_bytes() for name in (WEIGHTS, MODEL)}
