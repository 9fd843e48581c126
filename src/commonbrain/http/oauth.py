"""What this server is to OAuth: a protected resource, which issues no tokens itself (RFC 9728)."""

from dataclasses import dataclass
from typing import Final

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
MCP_PATH: Final = "/mcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedResource:
    """Under which URL callers know the server, and who issues tokens for it."""

    url: str
    """Without a slash at the end."""
    issuer: str | None = None
    """None where API keys are all that there is."""

    def challenge(self, *, has_credential: bool) -> str:
        """Give `WWW-Authenticate` for a caller that is not known."""
        parts = ['error="invalid_token"'] if has_credential else []
        if self.issuer:
            parts.append(f'resource_metadata="{self.url}{WELL_KNOWN}{MCP_PATH}"')
        return " ".join(("Bearer", ", ".join(parts))).strip()

    def document(self) -> dict[str, object]:
        """Give the metadata of the resource."""
        return {
            "resource": f"{self.url}{MCP_PATH}",
            "resource_name": "Commonbrain",
            "authorization_servers": [self.issuer],
            "bearer_methods_supported": ["header"],
        }
