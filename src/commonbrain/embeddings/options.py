"""Options of an embedder or extractor; each family reads those that concern it."""

from dataclasses import dataclass
from typing import Final

from pydantic import SecretStr

TIMEOUT_S: Final = 20.0
"""Long enough for an endpoint that first loads a model of some gigabytes."""
RETRIES: Final = 2
TOKENS_MAX: Final = 1000
"""Three atoms of four fields of 200 characters take 800."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of one model; None leaves the choice to the family."""

    threads: int = 1
    """Processor cores for embedding, if the model runs in this process."""
    model: str | None = None
    url: str | None = None
    key: SecretStr | None = None
    dimensions: int | None = None
    timeout_s: float = TIMEOUT_S
    """Seconds for one request, including its reply."""
    retries: int = RETRIES
    """Retries after a temporary failure."""
    tokens_max: int = TOKENS_MAX
    """Tokens of a text reply."""
