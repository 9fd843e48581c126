import json

from hypothesis import given
from hypothesis import strategies as st

from commonbrain.api.operations.recall import RECALL, RecallRequest
from commonbrain.client import Brain
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model.recall_result import HEADING
from commonbrain.text.normalisation import without_injected_context
from tests.asking import remember_one, stored


def test_pasted_evidence_is_removed_and_the_conclusion_stored(brain: Brain) -> None:
    stored(brain, "The ferry leaves\n\nat dawn, from pier 4", kind="event")
    evidence = brain.recall("ferry").evidence
    id_ = stored(brain, f"I asked the memory.\n{evidence}\nSo we meet at pier 4.", kind="event")
    assert brain.get(id_).body == "I asked the memory.\nSo we meet at pier 4."
    alone = remember_one(brain, evidence)
    assert (alone.status, alone.code) == (ItemStatus.REJECTED, "own_evidence")
    assert alone.hint


def test_pasted_recall_as_json_is_removed_whole(brain: Brain) -> None:
    stored(brain, "The ferry leaves at dawn", kind="fact")
    answer = RECALL.handle(brain, RecallRequest(query="ferry"))
    for shape in (RECALL.to_agent_json(answer), RECALL.to_json(answer)):
        for indent in (None, 2):
            pasted = f"before {json.dumps(shape, indent=indent)} after"
            assert without_injected_context(pasted) == "before  after"


@given(st.text())
def test_text_without_evidence_stays_unchanged(text: str) -> None:
    assert without_injected_context(text) == text


def test_quotes_and_json_of_other_origin_are_not_removed() -> None:
    text = 'mem_38G14A31WKSQK is the id\n> a quote\n{"notice": "none", "items": []}'
    assert without_injected_context(text) == text


def test_many_truncated_answers_are_read_in_linear_time() -> None:
    # Read on from every brace, it would take the square of its length.
    piece = f'{{"notice":"{HEADING}","items":[{{"id":"mem_38G14A31WKSQK",'
    assert len(without_injected_context("x\n" + piece * 8000)) > 0
