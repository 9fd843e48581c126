"""A store that is moved to another embedder, and what happens to it meanwhile."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from commonbrain.client import Brain
from commonbrain.clock import Clock
from commonbrain.testing.builders import WordHashEmbedder, a_brain

OLD = WordHashEmbedder.space.name
NEXT = "word-hash/96"


class Smaller(WordHashEmbedder):
    """Compares words in a quarter of the places, and lets a test act while it does."""

    space = replace(WordHashEmbedder.space, name=NEXT, dimensions=96)

    def __init__(self, meanwhile: Callable[[], object] | None = None) -> None:
        super().__init__()
        self.meanwhile = meanwhile

    def passages(self, texts: Sequence[str]) -> Any:  # noqa: ANN401 as the stand-in has it
        act, self.meanwhile = self.meanwhile, None
        if act is not None:
            act()
        return super().passages(texts)


def movable(
    path: Path, *, meanwhile: Callable[[], object] | None = None, clock: Clock | None = None
) -> Brain:
    """Open a store with the old embedder, by a process that knows of the next one."""
    return moving(a_brain(path, clock=clock), meanwhile=meanwhile)


def moved(path: Path, *, clock: Clock | None = None) -> Brain:
    """Open a store with the next embedder, by a process that knows of the old one."""
    return moving(a_brain(path, embedder=Smaller(), clock=clock))


def moving(brain: Brain, *, meanwhile: Callable[[], object] | None = None) -> Brain:
    """Let a brain make either embedder by the name of its space."""
    made = {OLD: WordHashEmbedder(), NEXT: Smaller(meanwhile)}
    services = replace(brain.services, embedders=made.__getitem__, next_space=NEXT)
    return Brain(services, brain.caller)
