"""A real OpenID provider on this machine: it describes itself, shows a form, exchanges codes."""

import json
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_urlsafe
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

from commonbrain.model.scope import LOCAL_TENANT
from tests.processes import TIMEOUT_S
from tests.security.issuing import Issuing

CLIENT: Final = "page of the brain"
TOKEN_ENDS_AT: Final = 4_070_908_800
"""1 January 2099 in seconds since 1970."""
SECRET, OTHER = "a secret & more", "another"
_METADATA: Final = "/.well-known/openid-configuration"
_PIECE_S: Final = 0.02
_FORM: Final = (
    "<!doctype html><html lang=en><title>Provider</title>"
    "<form method=post><button>Continue as Carla</button></form>"
)


@dataclass
class Provider:
    """Logs everybody in as Carla; its fields change what it says, as a hostile one would."""

    issuing: Issuing
    host: str = "localhost"
    secret: str | None = SECRET
    claims: dict[str, Any] = field(default_factory=dict[str, Any])
    """Further claims of ID tokens; None leaves one out."""
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    reply: bytes | None = None
    """What the token endpoint answers instead of tokens."""
    answer: dict[str, str] = field(default_factory=dict[str, str])
    """Further parameters with which it sends people back."""
    error: str | None = None
    padding: int = 0
    """Bytes of space before the metadata."""
    drips: bool = False
    """Whether the metadata never ends."""
    before_metadata: Callable[[], None] = lambda: None
    """Runs before the metadata is sent."""
    paths: list[str] = field(default_factory=list[str])
    forms: list[Mapping[str, str]] = field(default_factory=list[Mapping[str, str]])
    """Requests of the token endpoint, with the client's name and secret however they came."""
    _codes: dict[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    ended: threading.Event = field(default_factory=threading.Event)

    def reset(self) -> None:
        """Be the honest provider again, with the keys that it had at first."""
        fresh = Provider(self.issuing)
        for one in fields(self):
            if one.name not in {"issuing", "ended"}:
                setattr(self, one.name, getattr(fresh, one.name))

    @property
    def name(self) -> str:
        return f"http://{self.host}:{urlsplit(self.issuing.url).port}"

    def document(self) -> dict[str, Any]:
        return {
            "issuer": self.name,
            "authorization_endpoint": f"{self.name}/authorize?tier=free",
            "token_endpoint": f"{self.name}/token",
            "jwks_uri": f"{self.name}/keys",
            **self.metadata,
        }

    def send_back(self, address: str) -> str:
        """Return where a person is sent who logs in at an address of this provider."""
        request = dict(parse_qsl(urlsplit(address).query))
        assert request["tier"] == "free"
        assert (request["response_type"], request["client_id"]) == ("code", CLIENT)
        assert "openid" in request["scope"].split()
        assert request["code_challenge_method"] == "S256"
        code = token_urlsafe()
        self._codes[code] = request
        result = {"error": self.error} if self.error else {"code": code}
        sent = {**result, "state": request["state"], **self.answer}
        return f"{request['redirect_uri']}?{urlencode(sent)}"

    def exchange(self, form: Mapping[str, str]) -> dict[str, Any]:
        """Return the tokens of a code, once."""
        self.forms.append(form)
        request = self._codes.pop(form.get("code", ""), None)
        if (form.get("client_id"), form.get("client_secret")) != (CLIENT, self.secret):
            return {"error": "invalid_client"}
        digest = sha256(form.get("code_verifier", "").encode()).digest()
        challenge = urlsafe_b64encode(digest).decode().rstrip("=")
        if (
            request is None
            or form.get("grant_type") != "authorization_code"
            or form.get("redirect_uri") != request["redirect_uri"]
            or challenge != request["code_challenge"]
        ):
            return {"error": "invalid_grant", "error_description": f"not {form.get('code')}"}
        claims = {
            "iss": self.name,
            "aud": CLIENT,
            "sub": "carla",
            "tenant": LOCAL_TENANT,
            "role": "writer",
            "iat": int(time.time()),
            "exp": TOKEN_ENDS_AT,
            "nonce": request["nonce"],
            **self.claims,
        }
        given = {name: value for name, value in claims.items() if value is not None}
        id_token = self.issuing.token("ed", **given)
        return {"access_token": "x", "token_type": "Bearer", "id_token": id_token}


class Handler(BaseHTTPRequestHandler):
    provider: Provider

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        self.provider.paths.append(path)
        match path:
            case "/authorize" if self.provider.paths[-2:] != ["/upstream/authorize", path]:
                # As one that asks yet another provider, at another origin.
                self._redirect(f"{self.provider.issuing.url}/upstream{self.path}")
            case "/upstream/authorize":
                self._redirect(f"{self.provider.name}{self.path.removeprefix('/upstream')}")
            case "/authorize":
                self._send(_FORM.encode(), kind="text/html")
            case "/keys":
                self._send(json.dumps({"keys": self.provider.issuing.shown}).encode())
            case _ if path == _METADATA and self.provider.drips:
                self._drip()
            case _ if path == _METADATA:
                self.provider.before_metadata()
                body = json.dumps(self.provider.document()).encode()
                self._send(b" " * self.provider.padding + body)
            case _:
                self._send(b"", status=404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path != "/token":
            self._redirect(self.provider.send_back(self.path))
            return
        form = dict(parse_qsl(body.decode()))
        scheme, _, credentials = self.headers.get("authorization", "").partition(" ")
        if scheme == "Basic":
            id_, _, secret = b64decode(credentials).decode().partition(":")
            form |= {"client_id": unquote_plus(id_), "client_secret": unquote_plus(secret)}
        tokens = self.provider.exchange(form)
        reply = json.dumps(tokens).encode() if self.provider.reply is None else self.provider.reply
        self._send(reply, status=400 if "error" in tokens else 200)

    def _redirect(self, address: str) -> None:
        self.send_response(302)
        self.send_header("location", address)
        self.end_headers()

    def _send(self, body: bytes, *, status: int = 200, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _drip(self) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            while not self.provider.ended.wait(_PIECE_S):
                self.wfile.write(b" ")
        except OSError:
            return

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 its name
        """Say nothing."""


@contextmanager
def a_provider() -> Generator[Provider]:
    """Serve a provider on a free port of this machine."""
    issuing = Issuing()
    issuing.add("ed", "EdDSA")
    provider = Provider(issuing)

    class OfProvider(Handler):
        pass

    OfProvider.provider = provider
    server = ThreadingHTTPServer(("127.0.0.1", 0), OfProvider)
    issuing.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.ended.set()
        server.shutdown()
        server.server_close()
        thread.join(TIMEOUT_S)
