"""A first look into a store, with the imports of a hook that mostly has nothing to do."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from commonbrain.storage.sqlite.mentions import may_mention
from commonbrain.text.redaction import is_url


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


def store_file(store: Path | None, environment: Mapping[str, str]) -> Path | None:
    """Return the file of a store, before the settings are loaded; None if it is not a file here.

    Args:
        store: the store of the call; by default that of the environment, or the user's own.
        environment: the environment of the process.

    """
    given = str(store or environment.get("COMMONBRAIN_STORE", ""))
    if is_url(given) or (not given and environment.get("COMMONBRAIN_SECRETS_DIR")):
        return None
    if given:
        return Path(given)
    # Only needed without a setting.
    from platformdirs import user_data_path  # noqa: PLC0415

    return user_data_path("commonbrain", appauthor=False) / "brain.db"
