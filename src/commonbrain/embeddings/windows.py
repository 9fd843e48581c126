"""Stored texts are embedded in windows, of which a very long text has a bounded number."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

from commonbrain.model.limits import EMBEDDED_WINDOWS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from commonbrain.embeddings.interface import Matrix

Window = TypeVar("Window")


def embed_passages(
    texts: Sequence[str],
    *,
    cut: Callable[[str], Sequence[Window]],
    embed: Callable[[Sequence[Window]], Matrix],
) -> list[Matrix]:
    """Embed the windows of all texts together, of each text at most `EMBEDDED_WINDOWS_MAX`.

    Returns:
        One matrix per text in the given order, shape `(windows, dimensions)`.

    """
    windows = [cut(text)[:EMBEDDED_WINDOWS_MAX] for text in texts]
    if not windows:
        return []
    rows = iter(embed([*chain.from_iterable(windows)]))
    import numpy as np  # noqa: PLC0415 commands without vectors do not import it

    return [np.stack([*islice(rows, len(one))]) for one in windows]
