"""A first look into a store, with the imports of a hook that mostly has nothing to do."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from commonbrain.runtime.callers import store_file
from commonbrain.storage.sqlite.driver import may_mention


def store_may_mention(
    store: Path | None, phrases: Sequence[str], *, environment: Mapping[str, str]
) -> bool:
    """Return whether a closer look is worth its time: always for a store that is not a file here.

    Args:
        store: the store of the call; by default that of the environment, or the user's own.
        phrases: words or names, of which one is enough.
        environment: the environment of the process.

    """
    file = store_file(store, environment)
    return file is None or may_mention(file, phrases)
