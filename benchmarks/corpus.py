"""Made-up notes to measure with, over a vocabulary whose words are as unequal as real ones."""

import random
from collections.abc import Iterator
from itertools import accumulate

from commonbrain.domain.memory import Draft

_SYLLABLES = "ba co di fe gu ha jo ka li mo nu pe qui ro su ta vi we xo zy".split()
_VOCABULARY = 20_000
_WORDS = (12, 60)


def drafts(count: int, *, seed: int = 1) -> Iterator[Draft]:
    """Give `count` facts of 12 to 60 words drawn by Zipf's law; the same for the same seed."""
    chance = random.Random(seed)
    words = [
        "".join(chance.choices(_SYLLABLES, k=chance.randint(2, 4))) for _ in range(_VOCABULARY)
    ]
    odds = list(accumulate(1 / rank for rank in range(1, _VOCABULARY + 1)))
    for number in range(count):
        drawn = chance.choices(words, cum_weights=odds, k=chance.randint(*_WORDS))
        body = f"{' '.join(drawn).capitalize()}, said note {number}."
        yield Draft(body=body, kind="fact", project=f"project-{number % 20}")


def questions(count: int, *, of: int) -> list[str]:
    """Give questions of five words each from notes spread over the first `of` of the drafts."""
    chance = random.Random(2)
    chosen = set(chance.sample(range(of), count))
    bodies = (draft.body for number, draft in enumerate(drafts(of)) if number in chosen)
    return [" ".join(chance.sample(body.split(), 5)) + "?" for body in bodies]
