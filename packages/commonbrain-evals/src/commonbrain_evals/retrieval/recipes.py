"""How the study behind this evaluation blends its lists, one recipe a sort of data.

The study tried what anyone could write in an evening on public data, and kept what lifted recall
most. Its best recipes are the floor that recall is held against; `study` computes them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What is blended, each list brought to 0..1 over the candidates, and what is added."""

    words: float = 0.5
    """The share of BM25 in the blend; the rest is the vectors'."""
    has_context: bool = False
    """Whether each text is also looked for with what was said around it, for half of the blend."""
    session: float = 0.0
    """For how well the words of its whole session match."""
    speaker: float = 0.0
    """For who said it being named in the question."""
    date: float = 0.0
    """For how near to the time that the question names it was said."""
    user: float = 0.0
    """For having been said by the user, not by the assistant."""
    is_of_user: bool = False
    """Whether nothing else may come."""


STUDY: Final = "study recipe"
DOCUMENTS: Final[Mapping[str, Recipe]] = {STUDY: Recipe()}
"""For texts that have nothing around them."""
TALKS: Final[Mapping[str, Recipe]] = {
    STUDY: Recipe(has_context=True, session=0.2, speaker=0.1, date=0.3)
}
"""For people who talk to each other."""
CHATS: Final[Mapping[str, Recipe]] = {
    STUDY: Recipe(words=0.4, user=0.2),
    f"{STUDY}, user": Recipe(words=0.4, is_of_user=True),
}
"""For a user and an assistant; the evidence is mostly the user's, which the second presupposes."""
