"""A real issuer of tokens on this machine: its keys over HTTP, and tokens of every sort."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from commonbrain_server.security.authentication import Issuer
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

NAME = "https://issuer.test"
AUDIENCE = "https://brain.test"


@dataclass
class Issuing:
    """Signs, and shows its public keys; `fetched` counts the requests for them."""

    url: str = ""
    keys: dict[str, tuple[str, Any]] = field(default_factory=dict[str, tuple[str, Any]])
    shown: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    fetched: int = 0
    is_down: bool = False

    def add(self, kid: str, algorithm: str) -> None:
        """Make a key pair and show its public half."""
        private: PrivateKeyTypes
        match algorithm:
            case "ES256":
                private = ec.generate_private_key(ec.SECP256R1())
                public = ECAlgorithm.to_jwk(private.public_key(), as_dict=True)
            case "EdDSA":
                private = ed25519.Ed25519PrivateKey.generate()
                public = OKPAlgorithm.to_jwk(private.public_key(), as_dict=True)
            case _:
                private = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
                public = RSAAlgorithm.to_jwk(private.public_key(), as_dict=True)
        self.keys[kid] = (algorithm, private)
        self.shown.append({**public, "kid": kid, "alg": algorithm, "use": "sig"})

    def token(self, kid: str, **claims: Any) -> str:  # noqa: ANN401 claims are of any sort
        """Sign claims with a key."""
        algorithm, private = self.keys[kid]
        return jwt.encode(claims, private, algorithm=algorithm, headers={"kid": kid})

    def issuer(self, **more: Any) -> Issuer:  # noqa: ANN401 settings are of any sort
        """Describe it as settings would."""
        plain: dict[str, Any] = {
            "name": NAME,
            "audience": AUDIENCE,
            "keys_url": f"{self.url}/keys",
            "algorithms": ("RS256", "ES256", "EdDSA"),
            "leeway_s": 0,
        }
        return Issuer(**(plain | more))


@contextmanager
def an_issuer() -> Generator[Issuing]:
    """Serve an issuer's keys on a free port of this machine."""
    issuing = Issuing()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuing.fetched += 1
            body = json.dumps({"keys": issuing.shown}).encode()
            self.send_response(503 if issuing.is_down else 200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 its name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuing.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield issuing
    finally:
        server.shutdown()
        server.server_close()
