"""The file of a store, for processes that cannot wait for the settings."""

from collections.abc import Mapping
from pathlib import Path

from commonbrain.text.redaction import is_url


def store_file(store: str | Path | None, environment: Mapping[str, str]) -> Path | None:
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
