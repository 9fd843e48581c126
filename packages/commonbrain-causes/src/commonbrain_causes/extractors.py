"""The extractors of `brain atomize`: patterns of English, or a language model over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.runtime.models import chat_options
from commonbrain_causes.patterns import extract_atoms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from commonbrain.config import Settings
    from commonbrain.embeddings.interface import Extractor
    from commonbrain.model.atoms import Atom

PATTERNS: Final = "patterns"
_CHATS: Final = ("ollama", "openai")


class PatternExtractor:
    """Extracts causes by English patterns; needs no network."""

    name = PATTERNS

    def atoms(self, text: str) -> Sequence[Atom]:
        """Extract atoms by patterns, most specific first."""
        return extract_atoms(text)


def make_extractor(settings: Settings) -> Extractor:
    """Create the configured extractor; sends nothing yet.

    Raises:
        InvalidInputError: There is no such extractor, or its settings are missing or invalid.

    """
    if settings.extractor == PATTERNS:
        return PatternExtractor()
    if settings.extractor not in _CHATS:
        raise InvalidInputError(
            f"There is no extractor {settings.extractor[:40]!r}.",
            hint=f"COMMONBRAIN_EXTRACTOR may be {', '.join((PATTERNS, *_CHATS))}.",
        )
    # The client of HTTP takes long to import, and patterns need none.
    from commonbrain_models.chat import OLLAMA_CHAT, OPENAI_CHAT  # noqa: PLC0415

    from commonbrain_causes.chat import ChatExtractor  # noqa: PLC0415

    family = OLLAMA_CHAT if settings.extractor == "ollama" else OPENAI_CHAT
    return ChatExtractor(family, chat_options(settings, "extractor"))
