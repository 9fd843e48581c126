"""How the page is served: its hosts, its public URL and its cookies."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

from starlette.responses import Response

from commonbrain.model.errors import CommonbrainError
from commonbrain.model.scope import Caller

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSettings:
    """How the page is served."""

    hosts: frozenset[str] = LOOPBACK
    """Names and addresses, without ports, that requests may be addressed to; `*` allows any."""
    url: str | None = None
    """The public URL."""
    path: str = ""
    """The private path below which the page is served, if it is."""
    redact: Callable[[CommonbrainError], CommonbrainError] = lambda error: error
    """Removes the names of files and hosts from an error; by default nothing."""
    take_upload: Callable[[Caller], AbstractContextManager[None]] = lambda _caller: nullcontext()
    """Makes an upload wait its turn, or refuses it; a server shares its turns with REST."""

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach the page by HTTPS."""
        return self.url is not None and self.url.startswith("https:")

    @property
    def cookie(self) -> str:
        """The name of the session's cookie.

        The prefix lets no other host or path set it. All ports of a host share their cookies, so
        the port is in the name, or the path, which lets no program of another port set it.
        """
        if self.is_secure:
            return "__Host-commonbrain"
        if self.path:
            return f"commonbrain{self.path.replace('/', '-')}"
        port = urlsplit(self.url).port if self.url else None
        return f"commonbrain-{port}" if port else "commonbrain"

    def set_cookie(
        self,
        response: Response,
        name: str,
        *,
        value: str,
        age: int,
        samesite: Literal["strict", "lax"] = "strict",
    ) -> None:
        """Set a cookie that scripts cannot read."""
        response.set_cookie(
            name,
            value,
            max_age=age,
            httponly=True,
            samesite=samesite,
            secure=self.is_secure,
        )
