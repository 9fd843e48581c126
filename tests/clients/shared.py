"""The shared server as people start it, with a key and a token of two tenants to come in by."""

import json
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.processes import TIMEOUT_S, clean_environment, command
from tests.security.issuing import AUDIENCE, NAME, an_issuer
from tests.serving import free_port, started

KEY, TOKEN = "key", "token"
WAYS = (KEY, TOKEN)
_TOKEN_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A credential of a client, and the identity that the server must give it."""

    secret: str
    tenant: str
    agent: str

    def is_named_in(self, answer: str) -> bool:
        """Say whether status told its caller to be this one, in its sentence or as JSON."""
        plain = answer.replace("\\", "").replace(" ", "")
        members = (f'"{name}":"{value}"' for name, value in self._who.items())
        sentence = f"You are {self.agent}, writer of the tenant {self.tenant}."
        return sentence in answer or all(member in plain for member in members)

    @property
    def _who(self) -> dict[str, str]:
        return {"tenant": self.tenant, "agent": self.agent, "role": "writer"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedServer:
    """Where a server listens, and what comes in there."""

    url: str
    credentials: Mapping[str, Credential]

    @property
    def mcp(self) -> str:
        return f"{self.url}/mcp"


@contextmanager
def shared_server(store: Path) -> Generator[SharedServer]:
    """Start a server with access control over a new store, and an issuer of tokens for it."""
    for tenant in ("acme", "globex"):
        _brain(store, "tenant", "create", tenant)
    made = _brain(store, "--tenant", "acme", "key", "create", "ann", "--role", "writer", "--json")
    with an_issuer() as issuing:
        issuing.add("k1", "ES256")
        claims = {"iss": NAME, "aud": AUDIENCE, "exp": int(time.time()) + _TOKEN_S}
        token = issuing.token("k1", **claims, tenant="globex", sub="mia", role="writer")
        settings = {
            "COMMONBRAIN_JWT_ISSUER": NAME,
            "COMMONBRAIN_JWT_AUDIENCE": AUDIENCE,
            "COMMONBRAIN_JWT_JWKS_URL": f"{issuing.url}/keys",
        }
        port = free_port()
        with started(store, port=port, is_open=False, **settings):
            key = Credential(secret=json.loads(made)["secret"], tenant="acme", agent="ann")
            mia = Credential(secret=token, tenant="globex", agent="mia")
            url = f"http://127.0.0.1:{port}"
            yield SharedServer(url=url, credentials={KEY: key, TOKEN: mia})


def _brain(store: Path, *words: str) -> str:
    done = subprocess.run(
        command(store, *words),
        capture_output=True,
        check=True,
        encoding="utf-8",
        env=clean_environment(),
        timeout=TIMEOUT_S,
    )
    return done.stdout
