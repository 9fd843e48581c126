"""Whose tokens are taken; loaded without the libraries that read them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """Whose tokens are taken, and how they are read."""

    name: str
    audience: str
    keys_url: str
    algorithms: tuple[str, ...]
    tenant_claim: str = "tenant"
    agent_claim: str = "sub"
    role_claim: str | None = "role"
    leeway_s: float = 30
    timeout_s: float = 5
