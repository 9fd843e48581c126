"""Sentence encoders in a folder of the user; dimensions and thresholds come from the model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Final

from commonbrain.embeddings.interface import (
    CAUTIOUS,
    Embedder,
    EmbeddingSpace,
    Options,
    Thresholds,
)
from commonbrain.embeddings.local import LocalEmbedder
from commonbrain.embeddings.onnx_runtime import ModelLabel, open_session
from commonbrain.model.errors import InvalidInputError, UnavailableError
from commonbrain_models.calibration import EDITION, calibrate
from commonbrain_models.encoder import PooledEncoder, PrefixedTokenizer
from commonbrain_models.model_check import Check, ModelUse, check_in_child
from commonbrain_models.model_folder import (
    EncoderFolder,
    check_pooling,
    read_dense,
    read_encoder_folder,
)
from commonbrain_models.model_records import ModelRecord, ModelRecords
from commonbrain_models.onnx_graph import read_encoder_output, read_inputs
from commonbrain_models.pooling import SentenceHead

Calibrate = Callable[[Embedder], Thresholds | None]
"""Chooses the thresholds of an embedder without reading its space; None if none is good enough."""

FAMILY: Final = "onnx"
_TEXT: Final = "How many dimensions?"
_DIGEST_CHARS: Final = 16
"""64 bits: two models of one user share them by chance once in 10^19."""


class OnnxEmbedder(LocalEmbedder):
    """Embeds with the model of a folder.

    A child process uses a model before this one loads it, once for the same files. Its space is
    named after a digest of all files and settings that determine the vectors, wherever the folder
    is. The first time that the space is read, the model is loaded and measured; the
    result is kept in `records`.
    """

    def __init__(
        self,
        path: Path,
        *,
        records: ModelRecords,
        calibrate: Calibrate,
        edition: int = 0,
        threads: int | None = None,
        check: Check = check_in_child,
    ) -> None:
        self._path = path
        self._records = records
        self._calibrate = calibrate
        self._edition = edition
        self._check = check
        self._inspecting = RLock()
        super().__init__(self._read, label=_label(path), threads=threads)

    @cached_property
    def _folder(self) -> EncoderFolder:
        return read_encoder_folder(self._path)

    @cached_property
    def _digest(self) -> str:
        """The digest of what determines the vectors of stored texts."""
        content = self._records.digest(self._folder.hashed_files)
        return _hash(content, self._folder.hashed_settings)

    @property
    def space(self) -> EmbeddingSpace:
        """The space; the first time, the model is loaded and measured.

        Raises:
            InvalidInputError: a file is missing or damaged, or the model is of another kind.
            UnavailableError: `embedder_down`, the model cannot be loaded.

        """
        with self._inspecting:
            return self._measured_space

    @cached_property
    def _measured_space(self) -> EmbeddingSpace:
        # The prefix of queries is no part of the space, but of its thresholds.
        key = _hash(self._digest, self._folder.query_prefix, str(self._edition))
        record = self._records.get(key, make=self._inspect)
        name = f"{FAMILY}/{self._digest}/{record.dimensions}"
        return EmbeddingSpace.of(name, dimensions=record.dimensions, thresholds=record.thresholds)

    def _inspect(self) -> ModelRecord:
        dimensions = len(self.query(_TEXT))
        return ModelRecord(
            path=str(self._path.expanduser().absolute()),
            digest=self._digest,
            dimensions=dimensions,
            thresholds=self._calibrate(self) or CAUTIOUS,
        )

    def _read(self) -> PooledEncoder:
        folder = self._folder
        files = folder.files
        if not self._records.is_current(folder.hashed_files):
            raise UnavailableError(
                f"The files of the model in {files.folder} have changed since it was opened.",
                code="embedder_down",
                hint="Restart the program; changed files make another embedding space.",
            )
        use = ModelUse(
            function=f"{__name__}:{use_once.__name__}",
            path=self._path,
            files=folder.hashed_files,
            label=self._label,
        )
        self._records.check_once(use.files, check=lambda: self._check(use))
        return open_encoder(folder)


def open_encoder(folder: EncoderFolder) -> PooledEncoder:
    """Load the model of a folder.

    Raises:
        InvalidInputError: a file is missing or damaged, or the model is of another kind.
        Exception: as the libraries raise it.

    """
    files = folder.files
    session = open_session(files.model)
    output = read_encoder_output(session, files.model)
    head = SentenceHead()
    if output.is_per_token:
        head = SentenceHead(
            poolings=check_pooling(folder),
            layers=tuple(read_dense(one) for one in folder.dense),
            includes_prefix=folder.includes_prompt,
        )
    queries, passages = (
        PrefixedTokenizer.open(
            files.tokenizer,
            prefix=prefix,
            window_tokens=folder.window_tokens,
            lowers_text=folder.lowers_text,
        )
        for prefix in (folder.query_prefix, folder.passage_prefix)
    )
    return PooledEncoder(
        session=session,
        feed=read_inputs(session, files.model),
        output=output.name,
        tokenizer=passages.whole,
        head=head,
        queries=queries,
        passages=passages,
    )


def use_once(path: str) -> Iterator[bytes]:
    """Load the model of a folder, embed a text and yield nothing; runs in a child."""
    folder = read_encoder_folder(Path(path))
    label = _label(Path(path))
    with label.attempting("load the embedding model"):
        encoder = open_encoder(folder)
    with label.attempting("embed a text"):
        encoder.query_vector(_TEXT)
    yield from ()


def _label(path: Path) -> ModelLabel:
    return ModelLabel(
        name=f"embedder {FAMILY}:{path}",
        hint=f"Check the files in {path}; they may be damaged or incomplete.",
    )


def _hash(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_DIGEST_CHARS]


def make_embedder(options: Options) -> OnnxEmbedder:
    """Make the embedder `onnx` from settings.

    Raises:
        InvalidInputError: they name no folder.

    """
    if not options.model:
        raise InvalidInputError(
            "The embedder onnx needs the folder of a model.",
            hint="Write COMMONBRAIN_EMBEDDER=onnx:FOLDER.",
        )
    return OnnxEmbedder(
        Path(options.model),
        records=ModelRecords(options.records),
        calibrate=calibrate,
        edition=EDITION,
        threads=options.threads,
    )
