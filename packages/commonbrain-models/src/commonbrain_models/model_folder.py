"""Folders of ONNX models with the files that sentence-transformers writes.

Sources: huggingface/sentence-transformers 6.2 (`base/modules/transformer.py`, `dense.py`,
`sentence_transformer/modules/pooling.py`), and for names of files the ONNX exports of optimum.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from commonbrain.embeddings.local import WINDOW_TOKENS
from commonbrain.model.errors import InvalidInputError
from commonbrain_models.pooling import ACTIVATIONS, POOLINGS, DenseLayer

if TYPE_CHECKING:
    from commonbrain.embeddings.interface import Matrix

Parsed = TypeVar("Parsed")

MODEL_FILES: Final = ("model.onnx", "onnx/model.onnx")
"""Where exports put a model; any other is named by its file."""
_TEXTS: Final = frozenset(".json .md .txt .yaml .yml .py .onnx".split())
"""What a model's folder holds besides weights; of another model are files named after it."""
_TOKENS_DEFAULT: Final = 512
"""The length of nearly all encoders, for folders that do not say."""
_TOKENS_MIN: Final = 16
_LEGACY_POOLINGS: Final = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Names of versions before 5.4."""
_POOLING_HINT: Final = (
    "Copy the file from the model's page, or write one: for most models "
    '{"pooling_mode": "mean"}, for bge and arctic-embed {"pooling_mode": "cls"}.'
)
_COPY_HINT: Final = "Copy it from the model's page, or export the model again."


class _Parsed(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Module(_Parsed):
    path: str
    type: str


class _Pooling(_Parsed):
    model_config = ConfigDict(extra="allow", frozen=True)

    pooling_mode: str | list[str] | None = None
    include_prompt: bool = True


class _Dense(_Parsed):
    activation_function: str = "torch.nn.modules.linear.Identity"
    bias: bool = True


class _SentenceTransformersConfig(_Parsed):
    prompts: dict[str, str | None] = {}


_Length = Annotated[float | None, Field(gt=0)]


class _Lengths(_Parsed):
    """Keys of three files that limit the length of a text."""

    max_seq_length: _Length = None
    model_max_length: _Length = None
    max_position_embeddings: _Length = None


class _Transformer(_Parsed):
    do_lower_case: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """The files that every model has."""

    folder: Path
    """The one with `tokenizer.json`."""
    model: Path
    tokenizer: Path
    tokens_max: int
    """The longest input that the model takes."""
    weights: tuple[Path, ...]
    """The model's file, and those in its folder that may hold weights which are not in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderFolder:
    """What a folder says of a sentence encoder."""

    files: ModelFiles
    poolings: tuple[str, ...] | None
    """Names in `POOLINGS`; None if the folder does not say."""
    pooling_file: Path
    """Where the pooling is set."""
    includes_prompt: bool
    dense: tuple[Path, ...]
    """Folders of layers after pooling."""
    lowers_text: bool
    """Whether texts lose their case before they are tokenized."""
    query_prefix: str
    passage_prefix: str

    @property
    def window_tokens(self) -> int:
        """The length of a window, prefix included."""
        return min(WINDOW_TOKENS, self.files.tokens_max)

    @property
    def hashed_files(self) -> tuple[Path, ...]:
        """The files that determine the vectors, together with `hashed_settings`."""
        layers = (path for one in self.dense for path in sorted(one.iterdir()) if path.is_file())
        return (*self.files.weights, self.files.tokenizer, *layers)

    @property
    def hashed_settings(self) -> str:
        """The settings that determine the vectors of stored texts, in one form."""
        # Without lower case, the spaces of earlier versions keep their names.
        more = ["lower"] if self.lowers_text else []
        return json.dumps(
            [self.poolings, self.includes_prompt, self.window_tokens, self.passage_prefix, *more]
        )


def find_files(path: Path) -> ModelFiles:
    """Find the model and its tokenizer, by a folder or by the model's file.

    Raises:
        InvalidInputError: a file is missing or damaged.

    """
    location = path.expanduser().absolute()
    model = _find_model(location)
    folder = next(
        (one for one in (model.parent, model.parent.parent) if (one / "tokenizer.json").is_file()),
        None,
    )
    if folder is None:
        raise InvalidInputError(
            f"{model.parent} has no tokenizer.json, nor has the folder above it.", hint=_COPY_HINT
        )
    return ModelFiles(
        folder=folder,
        model=model,
        tokenizer=folder / "tokenizer.json",
        tokens_max=_tokens_max(folder),
        weights=(model, *_separate_weights(model)),
    )


def _separate_weights(model: Path) -> list[Path]:
    """List the files in a model's folder that are neither texts nor of another model."""
    siblings = [path for path in model.parent.iterdir() if path.is_file() and path != model]
    others = tuple(path.name for path in siblings if path.suffix == ".onnx")
    return sorted(
        path
        for path in siblings
        if path.suffix not in _TEXTS and not path.name.startswith((".", *others))
    )


def _find_model(location: Path) -> Path:
    if location.is_file():
        if location.suffix == ".onnx":
            return location
        raise InvalidInputError(
            f"{location} is no ONNX model.", hint="Name a folder, or a file such as model.onnx."
        )
    if not location.is_dir():
        raise InvalidInputError(
            f"There is no model at {location}.",
            hint="Write onnx:FOLDER with the folder that holds model.onnx and tokenizer.json.",
        )
    for name in MODEL_FILES:
        if (location / name).is_file():
            return location / name
    others = sorted(location.glob("*.onnx")) + sorted(location.glob("onnx/*.onnx"))
    if others:
        raise InvalidInputError(
            f"{location} has no model.onnx, but {', '.join(one.name for one in others[:8])}.",
            hint=f"Name the file, as in onnx:{others[0]}.",
        )
    raise InvalidInputError(
        f"{location} has neither model.onnx nor onnx/model.onnx.",
        hint="Export the model to ONNX, for example with optimum-cli export onnx.",
    )


def _tokens_max(folder: Path) -> int:
    """Return the longest input by the first file that says, as sentence-transformers reads them."""
    for name in ("sentence_bert_config.json", "tokenizer_config.json", "config.json"):
        parsed = _read(folder / name, _Lengths)
        if parsed is None:
            continue
        given = parsed.max_seq_length or parsed.model_max_length or parsed.max_position_embeddings
        # Tokenizers without a limit write a huge number.
        if given is not None and given < 1e9:  # noqa: PLR2004 see above
            if given < _TOKENS_MIN:
                raise InvalidInputError(
                    f"{folder / name} limits texts to {given:g} tokens; at least {_TOKENS_MIN} "
                    "are needed.",
                    hint="Correct the file.",
                )
            return int(given)
    return _TOKENS_DEFAULT


def read_encoder_folder(path: Path) -> EncoderFolder:
    """Read the folder of a sentence encoder.

    Raises:
        InvalidInputError: a file is missing, damaged, or asks for a step that is not supported.
        UnavailableError: `embedder_down`, the model is damaged.

    """
    files = find_files(path)
    folder = files.folder
    modules = _read(folder / "modules.json", list[_Module])
    dense: list[Path] = []
    pooling_file = folder / "1_Pooling" / "config.json"
    for module in modules or ():
        match module.type.rpartition(".")[2]:
            case "Pooling":
                pooling_file = _within(folder, module.path) / "config.json"
            case "Dense":
                dense.append(_inside(folder, module.path))
            case "Transformer" | "Normalize":
                # Vectors are normalised in any case: similarities are cosines.
                pass
            case other:
                raise InvalidInputError(
                    f"{folder / 'modules.json'} has a module {other[:40]!r}, which is not "
                    "supported.",
                    hint="Supported are Transformer, Pooling, Dense and Normalize.",
                )
    pooling = _read(pooling_file, _Pooling)
    sentence = _read(folder / "config_sentence_transformers.json", _SentenceTransformersConfig)
    prompts = sentence.prompts if sentence else {}
    transformer = _read(folder / "sentence_bert_config.json", _Transformer)
    return EncoderFolder(
        files=files,
        poolings=None if pooling is None else _poolings(pooling, pooling_file),
        pooling_file=pooling_file,
        includes_prompt=pooling is None or pooling.include_prompt,
        dense=tuple(dense),
        lowers_text=transformer is not None and transformer.do_lower_case,
        query_prefix=prompts.get("query") or "",
        passage_prefix=next(
            (one for name in ("document", "passage", "corpus") if (one := prompts.get(name))), ""
        ),
    )


def _within(folder: Path, path: str) -> Path:
    """Return a path in the folder: a model from elsewhere must not name other files."""
    if PureWindowsPath(path).anchor or ".." in PureWindowsPath(path).parts:
        raise InvalidInputError(
            f"{folder / 'modules.json'} names {path[:80]!r}, which is outside the folder.",
            hint="Copy the module into the folder and name it there.",
        )
    return folder / path


def _inside(folder: Path, path: str) -> Path:
    inner = _within(folder, path)
    if not inner.is_dir():
        raise InvalidInputError(
            f"{folder / 'modules.json'} names the folder {path}, which does not exist.",
            hint=_COPY_HINT,
        )
    return inner


def _poolings(pooling: _Pooling, path: Path) -> tuple[str, ...]:
    given = pooling.pooling_mode
    if given is None:
        flags = pooling.model_extra or {}
        names: Sequence[str] = [to for key, to in _LEGACY_POOLINGS.items() if flags.get(key)]
    else:
        names = [given] if isinstance(given, str) else given
    unknown = [name for name in names if name not in POOLINGS]
    if unknown or not names:
        raise InvalidInputError(
            f"{path} has no pooling that is known"
            + (f": {unknown[0][:40]!r}." if unknown else "."),
            hint=f"Known are {', '.join(POOLINGS)}.",
        )
    return tuple(names)


def check_pooling(folder: EncoderFolder) -> tuple[str, ...]:
    """Return the pooling of a model whose output is a vector per token.

    Raises:
        InvalidInputError: the folder does not say how they become one.

    """
    if folder.poolings is None:
        raise InvalidInputError(
            f"{folder.pooling_file} is missing: the model gives a vector per token, and the file "
            "says how they become one.",
            hint=_POOLING_HINT,
        )
    return folder.poolings


def read_dense(folder: Path) -> DenseLayer:
    """Read a dense layer: `config.json` and `model.safetensors`.

    Raises:
        InvalidInputError: a file is missing or damaged, or the activation is not supported.

    """
    config = _read(folder / "config.json", _Dense)
    if config is None:
        raise InvalidInputError(f"{folder / 'config.json'} is missing.", hint=_COPY_HINT)
    activation = config.activation_function.rpartition(".")[2]
    if activation not in ACTIVATIONS:
        raise InvalidInputError(
            f"{folder / 'config.json'} has the activation {activation[:40]!r}, which is not "
            "supported.",
            hint=f"Supported are {', '.join(ACTIVATIONS)}.",
        )
    path = folder / "model.safetensors"
    if not path.is_file():
        raise InvalidInputError(
            f"{path} is missing.",
            hint="Save the layer as safetensors; pytorch_model.bin is not read, since it can run "
            "code.",
        )
    tensors = _read_safetensors(path)
    if "linear.weight" not in tensors or (config.bias and "linear.bias" not in tensors):
        raise InvalidInputError(f"{path} lacks linear.weight or linear.bias.", hint=_COPY_HINT)
    return DenseLayer(
        weight=tensors["linear.weight"],
        bias=tensors["linear.bias"] if config.bias else None,
        activation=activation,
    )


def _read_safetensors(path: Path) -> Mapping[str, Matrix]:
    """Read tensors: a length, a JSON header, and the data (huggingface/safetensors, README)."""
    import numpy as np  # noqa: PLC0415 counting memories needs neither it nor the model

    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    try:
        header: dict[str, Any] = json.loads(content[8:start])
        return {
            name: _tensor(np.frombuffer(content[start:], np.uint8), about)
            for name, about in header.items()
            if name != "__metadata__"
        }
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"{path} is damaged: {error}", hint=_COPY_HINT) from error


def _tensor(data: Any, about: Mapping[str, Any]) -> Matrix:  # noqa: ANN401 bytes as an array
    import numpy as np  # noqa: PLC0415 see `_read_safetensors`

    begin, end = about["data_offsets"]
    raw = data[begin:end]
    match about["dtype"]:
        case "F32" | "F16" as kind:
            numbers = raw.view(np.float32 if kind == "F32" else np.float16)
        case "BF16":
            # The upper half of a float32.
            numbers = (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        case other:
            raise ValueError(f"numbers of type {other}")
    return numbers.astype(np.float32).reshape(about["shape"])


def _read(path: Path, form: type[Parsed]) -> Parsed | None:
    """Parse a JSON file; None if there is none.

    Raises:
        InvalidInputError: it is damaged.

    """
    try:
        return TypeAdapter(form).validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise InvalidInputError(f"{path} cannot be read: {why}.", hint=_COPY_HINT) from error
