"""The URLs that models answer at."""

from typing import Final
from urllib.parse import urlsplit, urlunsplit

from commonbrain.domain.errors import Invalid

OLLAMA_URL: Final = "http://127.0.0.1:11434"
OPENAI_URL: Final = "https://api.openai.com/v1"
ENDPOINTS: Final = {"ollama": OLLAMA_URL, "openai": OPENAI_URL}
"""Where models are that run elsewhere, unless settings say."""


def joined(url: str, path: str, *, settings: str = "COMMONBRAIN_EMBEDDER") -> str:
    """Put a path behind a base URL.

    Raises:
        Invalid: it is no HTTP URL, or holds a name and password, which belong elsewhere.

    """
    try:
        parts = urlsplit(url)
        is_sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_sound, parts = False, urlsplit("")
    if not is_sound or "@" in parts.netloc:
        # The URL is not repeated: it may hold a password.
        raise Invalid(
            f"{settings}_URL is not the base of an HTTP API, or it holds a password.",
            hint=f"Write it like http://127.0.0.1:11434 and put a key into {settings}_API_KEY.",
        )
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") + path, fragment=""))
