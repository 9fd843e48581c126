"""Extractors behind HTTP: what is sent, what is believed of the answer, and what never is."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from commonbrain_causes.atomize import atomizer_of
from commonbrain_causes.chat import ChatExtractor
from commonbrain_causes.extractors import make_extractor
from commonbrain_models.chat import OLLAMA_CHAT, OPENAI_CHAT
from pydantic import SecretStr

from commonbrain.client import Brain
from commonbrain.config import Settings
from commonbrain.embeddings.interface import Options
from commonbrain.model.errors import InvalidInputError, UnavailableError
from commonbrain.testing.builders import a_brain
from tests.asking import stored
from tests.model_server import NO_PAUSE, Answer, ModelServer

FAMILIES = {"ollama": OLLAMA_CHAT, "openai": OPENAI_CHAT}
KEY = "sk-do-not-tell-me"
TEXT = "The proxy dropped the header. Every signed request was refused after that, sadly."
SAID = {
    "subject": "The proxy",
    "action": "dropped the header",
    "outcome": "signed request refused",
    "consequences": "",
}
IN_BOTH = pytest.mark.parametrize("family", FAMILIES)


def extractor(server: ModelServer, family: str = "ollama", *, retries: int = 0) -> ChatExtractor:
    options = Options(
        model="words", url=server.base(family), key=SecretStr(KEY), retries=retries, tokens_max=77
    )
    return ChatExtractor(FAMILIES[family], options, retry_policy=NO_PAUSE)


def answering(family: str, content: str) -> Answer:
    message = {"message": {"role": "assistant", "content": content}}
    return Answer(body=json.dumps(message if family == "ollama" else {"choices": [message]}))


def atoms_reply(family: str, *atoms: dict[str, str]) -> Answer:
    return answering(family, json.dumps({"atoms": atoms}))


@IN_BOTH
def test_extraction_request_has_the_text_the_key_and_an_output_token_limit(
    server: ModelServer, family: str
) -> None:
    server.script.append(atoms_reply(family, SAID))

    [atom] = extractor(server, family).atoms(TEXT)

    assert (atom.subject, atom.outcome) == ("The proxy", "signed request refused")
    [request] = server.requests
    assert request.body["messages"][-1] == {"role": "user", "content": TEXT}
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    bound = (
        request.body["options"]["num_predict"] if family == "ollama" else request.body["max_tokens"]
    )
    assert bound == 77


def test_extracted_atom_with_words_that_are_not_in_the_text_is_dropped(server: ModelServer) -> None:
    invented = SAID | {"outcome": "aliens invaded the warehouse"}
    server.script.append(atoms_reply("ollama", invented, SAID))

    assert len(extractor(server).atoms(TEXT)) == 1


def test_swapped_cause_and_effect_of_a_model_are_dropped(server: ModelServer) -> None:
    text = "The outage of the shop was caused by an expired certificate."
    right = {"subject": "expired certificate", "action": "", "outcome": "outage of the shop"}
    wrong = {"subject": "outage of the shop", "action": "", "outcome": "expired certificate"}
    server.script.append(atoms_reply("ollama", SAID | wrong, SAID | right))

    assert [one.subject for one in extractor(server).atoms(text)] == ["expired certificate"]


def test_number_and_length_of_extracted_atoms_are_limited(server: ModelServer) -> None:
    long = SAID | {"action": "dropped the header " * 40}
    server.script.append(atoms_reply("ollama", *[long] * 5))

    atoms = extractor(server).atoms(TEXT)

    assert len(atoms) == 3
    assert len(atoms[0].action) <= 200


@IN_BOTH
@pytest.mark.parametrize("content", ["no JSON", "[]", '{"atoms": [{"subject": ""}]}', "null"])
def test_malformed_answer_is_reported_without_its_text(
    server: ModelServer, family: str, content: str
) -> None:
    server.script.append(answering(family, content))

    with pytest.raises(UnavailableError, match="holds no atoms") as caught:
        extractor(server, family).atoms(TEXT)

    assert caught.value.code == "extractor_down"
    assert "COMMONBRAIN_EXTRACTOR_MODEL" in caught.value.hint
    assert "header" not in str(caught.value)


def test_failing_endpoint_is_retried_and_reported_with_the_extractor_settings(
    server: ModelServer,
) -> None:
    server.script.extend([Answer(status=503), Answer(status=401)])

    with pytest.raises(UnavailableError) as caught:
        extractor(server, retries=1).atoms(TEXT)

    assert len(server.requests) == 2
    assert caught.value.code == "extractor_down"
    assert "COMMONBRAIN_EXTRACTOR_API_KEY" in caught.value.hint
    assert KEY not in str(caught.value)


def test_default_extractor_uses_patterns_and_a_remote_one_requires_a_model_name() -> None:
    assert make_extractor(Settings.model_construct()).name == "patterns"
    with pytest.raises(InvalidInputError, match="needs a model"):
        make_extractor(Settings.model_construct(extractor="openai"))
    with pytest.raises(InvalidInputError, match="no extractor 'none'"):
        make_extractor(Settings.model_construct(extractor="none"))


def test_extracted_atom_has_trust_and_scope_of_its_source(server: ModelServer, path: Path) -> None:
    server.script.append(atoms_reply("ollama", SAID))
    with a_brain(path) as patterns:
        services = replace(patterns.services, extractor=lambda: extractor(server))
        brain = Brain(services, patterns.caller)
        id_ = stored(brain, TEXT, kind="event", trust="untrusted_web", scope="private")

        done = atomizer_of(brain)(id_)

        assert (done.extractor, done.stored) == ("ollama/words", 1)
        atom = brain.get(str(done.items[0].id))
        assert (atom.trust, atom.scope) == ("untrusted_web", "private")
        assert atom.confidence <= brain.get(id_).confidence
