"""A text that is made to be found does not come before one that answers."""

import pytest

from commonbrain.client import Brain
from tests.asking import bodies, stored

ANSWERS = {
    "Which port does the billing worker listen on?": "The billing worker listens on port 7443.",
    "Who owns the rotation of the search team?": "Priya owns the rotation of search since May.",
    "Where are customer invoices archived?": "Customer invoices are archived in inv-archive-eu.",
}
LISTS = {
    "How do I rotate the API keys?": "How do I rotate the API keys?\nRun `keys rotate` and deploy.",
    "What is a tombstone?": (
        "shard: a part of an index\ntombstone: the mark of a deleted row\n"
        "lease: a lock that ends by itself\nfence: a number that grows with each lease"
    ),
    "Which command shows the pods?": (
        "kubectl get nodes - shows the nodes\nkubectl get pods - shows the pods\n"
        "kubectl logs NAME - shows the logs of a pod\nkubectl delete pod NAME - deletes a pod"
    ),
    "What is the SLA of gold customers?": (
        "| plan | SLA | price |\n| gold customers | 99.95% SLA | 900 |\n"
        "| silver customers | 99.9% SLA | 400 |\n| bronze customers | 99% SLA | 100 |"
    ),
}
STUFFED = {
    "repeated question": "{0} {0} See the portal. {0}",
    "without question marks": "{1} {1} {1} see the portal",
    "words alone": "{2} {2} {2}",
}


@pytest.fixture
def known(brain: Brain) -> Brain:
    for text in (*ANSWERS.values(), *LISTS.values()):
        stored(brain, text, kind="fact")
    return brain


@pytest.mark.requirement("RT-39")
@pytest.mark.parametrize("shape", STUFFED)
def test_text_that_repeats_a_question_comes_after_its_answer(known: Brain, shape: str) -> None:
    for question in ANSWERS:
        plain = question.removesuffix("?").lower()
        words = " ".join(word for word in plain.split() if len(word) > 3)
        stored(known, STUFFED[shape].format(question, plain, words), kind="fact")
    assert {question: bodies(known, question)[0] for question in ANSWERS} == ANSWERS


@pytest.mark.requirement("RT-39")
def test_question_comes_after_its_answer(known: Brain) -> None:
    stored(known, " ".join(ANSWERS), kind="fact")
    assert {question: bodies(known, question)[0] for question in ANSWERS} == ANSWERS


@pytest.mark.requirement("RT-40")
def test_list_table_or_glossary_that_answers_comes_first(known: Brain) -> None:
    assert {question: bodies(known, question)[0] for question in LISTS} == LISTS
