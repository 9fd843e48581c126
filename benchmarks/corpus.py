"""Made-up notes to measure with, over a vocabulary whose words are as unequal as real ones."""

import json
import random
from collections.abc import Iterator
from itertools import accumulate

import commonbrain_minilm

from commonbrain.model.memory import Draft

WORDS_MAX = 60
_LETTERS_MIN = 3


def drafts(count: int, *, seed: int = 1, words: int = WORDS_MAX) -> Iterator[Draft]:
    """Yield `count` facts of 12 to 60 words drawn by Zipf's law; the same for the same seed.

    With another `words`, they have a fifth of it to all of it.
    """
    random_source = random.Random(seed)
    vocabulary = _vocabulary()
    random_source.shuffle(vocabulary)
    odds = list(accumulate(1 / rank for rank in range(1, len(vocabulary) + 1)))
    for number in range(count):
        length = random_source.randint(words // 5, words)
        drawn = random_source.choices(vocabulary, cum_weights=odds, k=length)
        body = f"{' '.join(drawn).capitalize()}, said note {number}."
        yield Draft(body=body, kind="fact", project=f"project-{number % 20}")


def _vocabulary() -> list[str]:
    """Return the English words that the embedder's tokenizer knows whole, some 18,000."""
    tokenizer = json.loads(commonbrain_minilm.TOKENIZER_PATH.read_text("utf-8"))
    return sorted(
        word
        for word in tokenizer["model"]["vocab"]
        if word.isascii() and word.isalpha() and len(word) >= _LETTERS_MIN
    )


def questions(count: int, *, of: int) -> list[str]:
    """Return questions of five words each from notes spread over the first `of` of the drafts."""
    random_source = random.Random(2)
    chosen = set(random_source.sample(range(of), count))
    bodies = (draft.body for number, draft in enumerate(drafts(of)) if number in chosen)
    return [" ".join(random_source.sample(body.split(), 5)) + "?" for body in bodies]
