"""Options of models, and the default URLs of those that answer over HTTP.

Apart from the HTTP client, which takes a tenth of a second to import and few stores use.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from pydantic import SecretStr

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.values import dataclass

TIMEOUT_S: Final = 20.0
"""Long enough for an endpoint that first loads a model of some gigabytes."""
RETRIES: Final = 2
TOKENS_MAX: Final = 1000
"""Three atoms of four fields of 200 characters take 800."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of one model; None leaves the choice to the family."""

    threads: int | None = None
    """Processor cores for embedding, if the model runs in this process."""
    model: str | None = None
    """Its name at the endpoint, or its folder or file."""
    records: Path | None = None
    """Folder that keeps measurements of local models; None keeps them for this process."""
    url: str | None = None
    key: SecretStr | None = None
    dimensions: int | None = None
    timeout_s: float = TIMEOUT_S
    """Seconds for one request, including its reply."""
    retries: int = RETRIES
    """Retries after a temporary failure."""
    tokens_max: int = TOKENS_MAX
    """Tokens of a text reply."""


OLLAMA_URL: Final = "http://127.0.0.1:11434"
OPENAI_URL: Final = "https://api.openai.com/v1"
ENDPOINTS: Final = {"ollama": OLLAMA_URL, "openai": OPENAI_URL}
"""Default URLs by family."""


def joined(url: str, path: str, *, settings: str = "COMMONBRAIN_EMBEDDER") -> str:
    """Append a path to a base URL.

    Raises:
        InvalidInputError: it is not an HTTP URL, or contains a user name or password.

    """
    try:
        parts = urlsplit(url)
        is_sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_sound, parts = False, urlsplit("")
    if not is_sound or "@" in parts.netloc:
        # The URL is not repeated: it may contain a password.
        raise InvalidInputError(
            f"{settings}_URL is not the base of an HTTP API, or it holds a password.",
            hint=f"Write it like http://127.0.0.1:11434 and put a key into {settings}_API_KEY.",
        )
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") + path, fragment=""))
