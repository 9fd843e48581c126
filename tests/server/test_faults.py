"""What breaks inside a server: logged without a caller's words, told to nobody, and outlived."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from commonbrain.adapters.telemetry.log import Lines
from commonbrain.domain.errors import Unavailable
from commonbrain.testing.builders import a_brain
from commonbrain.testing.deterministic_embedder import WordHashEmbedder
from tests.server.serving import an_app, calling, listening

WORDS = "the passage behind the bookcase"


class Broken(WordHashEmbedder):
    """Has a fault that repeats what it was given."""

    def query(self, text: str) -> Any:  # noqa: ANN401 as the stand-in has it
        raise ValueError(text)

    def passages(self, texts: Sequence[str]) -> Any:  # noqa: ANN401 as the stand-in has it
        raise ValueError(texts)


class Down(WordHashEmbedder):
    """Cannot be reached, and says where."""

    def query(self, text: str) -> Any:  # noqa: ANN401, ARG002 as the stand-in has it
        raise Unavailable("No answer from 10.1.2.3:5432.", code="embedder_down")


def test_a_fault_of_ours_is_in_our_log_without_the_caller_s_words(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with listening(an_app(a_brain(path, embedder=Broken()))) as url:
        told = httpx2.post(
            f"{url}/v1/remember",
            json={"text": WORDS, "kind": "fact"},
            headers={"Authorization": "Bearer key-of-ann"},
        )
        assert told.status_code == 500
        assert told.json()["code"] == "internal"
    assert WORDS not in told.text
    failed = [one for one in caplog.records if one.getMessage() == "a request failed"]
    assert '"error": "ValueError"' in Lines().format(failed[0])
    assert WORDS not in Lines().format(failed[0])
    assert not [one for one in caplog.records if one.name == "uvicorn.error"]


def test_who_asks_whether_a_server_is_ready_learns_no_address(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with calling(an_app(a_brain(path, embedder=Down())), None) as client:
        told = client.get("/readyz")
    assert (told.status_code, told.json()["code"]) == (503, "embedder_down")
    assert "10.1.2.3" not in told.text
    assert "10.1.2.3" in caplog.text
