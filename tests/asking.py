"""Helpers for tests of flows: remember a text, recall bodies, read a memory."""

from collections.abc import Sequence
from dataclasses import replace
from threading import Event
from typing import Unpack

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Matrix
from commonbrain.ingestion.result import ItemResult, ItemStatus
from commonbrain.ingestion.service import DraftFields
from commonbrain.model.errors import UnavailableError
from commonbrain.retrieval.get import MemoryView
from commonbrain.retrieval.recall import RecallOptions
from commonbrain.testing.builders import WordHashEmbedder


class FailingEmbedder(WordHashEmbedder):
    """Answers as its parent does until it is down."""

    is_down = False

    def query(self, text: str) -> Matrix:
        self._check()
        return super().query(text)

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        self._check()
        return super().passages(texts)

    def _check(self) -> None:
        if self.is_down:
            raise UnavailableError("The embedder does not answer.", code="embedder_down")


class StuckEmbedder(WordHashEmbedder):
    """Answers no query until it is released."""

    def __init__(self) -> None:
        self.may_go = Event()
        super().__init__()

    def query(self, text: str) -> Matrix:
        self.may_go.wait()
        return super().query(text)


def remember_one(brain: Brain, text: str, **known: Unpack[DraftFields]) -> ItemResult:
    """Remember one text and give what became of it."""
    [outcome] = brain.remember(text, **known).items
    return outcome


def stored(brain: Brain, text: str, **known: Unpack[DraftFields]) -> str:
    """Remember one text that must get in, and give its id."""
    outcome = remember_one(brain, text, **known)
    assert outcome.status is ItemStatus.STORED, outcome
    assert outcome.id is not None
    return outcome.id


def bodies(brain: Brain, query: str = "", **options: Unpack[RecallOptions]) -> list[str | None]:
    """Recall and give only the bodies."""
    return [item.body for item in brain.recall(query, **options).items]


def as_it_is(brain: Brain, id_: str) -> MemoryView:
    """A memory but for its version, which counts what was taken back as well."""
    return replace(brain.get(id_, bump=False), version=0)
