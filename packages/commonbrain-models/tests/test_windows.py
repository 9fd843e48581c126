from itertools import pairwise
from pathlib import Path

import pytest
from commonbrain_models.http import token_windows
from commonbrain_models.model_records import ModelRecords
from commonbrain_models.onnx_folder import OnnxEmbedder
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.embeddings.interface import CAUTIOUS
from commonbrain.embeddings.local import WINDOW_TOKENS
from commonbrain.model.limits import EMBEDDED_WINDOWS_MAX
from commonbrain.text.tokens import estimate
from tests.model_server import ModelServer
from tests.onnx_models import save_encoder, trust

TEXTS = st.text(st.sampled_from("ab é漢🧠\n\t9_-"), max_size=3000)


@given(TEXTS)
def test_windows_fit_the_token_limit_and_contain_every_character(text: str) -> None:
    cut = token_windows(text)

    assert cut
    # The parts' estimates are rounded, each by less than one token.
    assert all(estimate(window) <= WINDOW_TOKENS * 1.1 for window in cut)
    joined = "".join("".join(window.split()) for window in cut)
    assert {*"".join(text.split())} <= {*joined}
    assert len(joined) >= len("".join(text.split()))


@given(st.lists(st.integers(0, 99), min_size=1, max_size=600))
def test_windows_contain_the_whole_text_in_order(numbers: list[int]) -> None:
    words = [f"word{number}" for number in numbers]
    cut = [window.split() for window in token_windows(" ".join(words))]

    whole = cut[0]
    for before, after in pairwise(cut):
        whole = whole + after[_shared(before, after) :]
    assert len(whole) <= len(words)
    assert set(whole) == set(words)
    assert (cut[0][0], cut[-1][-1]) == (words[0], words[-1])


def test_consecutive_windows_overlap_by_about_a_quarter() -> None:
    first, second, *_ = token_windows(" ".join(f"w{n}" for n in range(1000)))

    shared = {*first.split()} & {*second.split()}
    assert 0.15 < len(shared) / len(first.split()) < 0.35


def test_text_without_words_becomes_a_placeholder_window() -> None:
    assert token_windows("") == token_windows(" \t\n") == ["-"]


def test_trailing_spaces_do_not_become_windows() -> None:
    assert token_windows("tea" + " " * 1_000_000) == ["tea"]


def test_characters_that_endpoints_refuse_are_replaced() -> None:
    assert token_windows("half \ud83d a\x00pair") == ["half ? a pair"]


def _shared(before: list[str], after: list[str]) -> int:
    """Count the words that end one window and begin the next."""
    counts = range(len(before), -1, -1)
    return next(n for n in counts if before[len(before) - n :] == after[:n])


@pytest.mark.requirement("WP-51")
def test_endpoint_gets_the_first_windows_of_a_very_long_text(server: ModelServer) -> None:
    embedder = server.embedder("ollama")

    [vectors] = embedder.passages(["!?;:,." * 5000])

    assert len(vectors) == EMBEDDED_WINDOWS_MAX < len(embedder.windows("!?;:,." * 5000))


@pytest.mark.requirement("WP-51")
def test_local_model_embeds_the_first_windows_of_a_very_long_text(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "model")
    embedder = OnnxEmbedder(
        folder, records=ModelRecords(), calibrate=lambda _: CAUTIOUS, check=trust
    )
    text = "lisbon tea " * 20_000

    long, short = embedder.passages([text, "tea"])

    assert (len(long), len(short)) == (EMBEDDED_WINDOWS_MAX, 1)
    assert len(embedder.windows(text)) > EMBEDDED_WINDOWS_MAX
