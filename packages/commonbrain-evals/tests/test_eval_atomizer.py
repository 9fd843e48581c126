import re

from commonbrain_causes import signs
from commonbrain_evals.text_rules import read_cause_sentences

from commonbrain.text.words import stem


def test_search_cues_of_a_sign_exclude_none_of_its_matches() -> None:
    for sentence in read_cause_sentences():
        text = sentence.text.lower()
        stems = set(map(stem, re.findall(r"[a-z/]+", text)))
        for sign in (*signs.SIGNS, *signs.VERBS):
            assert not any(sign.matches(text)) or sign.cues & stems, (sign.name, text)
