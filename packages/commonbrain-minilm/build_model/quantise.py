"""Quantises the encoder's matrices to int8, one scale per output channel."""

# onnx and onnxruntime bring no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

import tempfile
from pathlib import Path

import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic


def quantised(model: onnx.ModelProto) -> bytes:
    """Give the file's bytes; activations are scaled while it runs, over all of one call's tokens.

    Per channel, because one scale per matrix costs 3 points of nDCG@10 on SciFact.
    """
    with tempfile.TemporaryDirectory() as folder:
        plain, small = Path(folder, "plain.onnx"), Path(folder, "small.onnx")
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
        return small.read_bytes()
