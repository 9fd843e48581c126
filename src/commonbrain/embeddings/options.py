"""What the settings say of an embedder or extractor; each family reads what concerns it."""

from dataclasses import dataclass
from typing import Final

from pydantic import SecretStr

TIMEOUT_S: Final = 20.0
"""Long enough for an endpoint that loads a model of some gigabytes first."""
RETRIES: Final = 2
TOKENS_MAX: Final = 1000
"""Three atoms of four fields of 200 characters take 800."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The choices for one model; what is None is left to the family."""

    threads: int = 1
    """Processor cores that texts are embedded on, where the model runs in this process."""
    model: str | None = None
    url: str | None = None
    key: SecretStr | None = None
    dimensions: int | None = None
    timeout_s: float = TIMEOUT_S
    """Seconds that one request may take, its answer included."""
    retries: int = RETRIES
    """Further attempts after a failure that may pass."""
    tokens_max: int = TOKENS_MAX
    """Tokens that a reply in words may have."""
