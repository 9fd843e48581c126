"""URLs of endpoints, apart from the HTTP client, which takes a sixth of a second to import."""

from urllib.parse import urlsplit, urlunsplit

from commonbrain.model.errors import InvalidInputError


def append_path(url: str, path: str, *, settings: str = "COMMONBRAIN_EMBEDDER") -> str:
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
