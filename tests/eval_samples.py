"""Tiny files in the formats of public data sets."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TURNS = [
    ("Ann", "D1:1", "I adopted a greyhound called Pickle last week."),
    ("Bob", "D1:2", "Lovely! My own week went into repairing the boiler."),
    ("Ann", "D1:3", "Pickle sleeps on the sofa and snores."),
]
LATER = [("Bob", "D2:1", "The boiler broke again, I ordered a heat pump.")]


def write_json(path: Path, value: Any) -> Path:  # noqa: ANN401
    path.write_text(json.dumps(value), "utf-8")
    return path


def write_lines(path: Path, *rows: Any) -> Path:  # noqa: ANN401
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def locomo(path: Path, *names: str) -> Path:
    return write_json(path, [_sample(name) for name in names or ("one", "two")])


def _sample(name: str) -> dict[str, Any]:
    def turn_list(turns: list[tuple[str, str, str]]) -> list[dict[str, str]]:
        return [{"speaker": who, "dia_id": id_, "text": text} for who, id_, text in turns]

    return {
        "sample_id": name,
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Bob",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": turn_list(TURNS),
            "session_2_date_time": "9:00 am on 20 May, 2023",
            "session_2": turn_list(LATER),
        },
        "qa": [
            {"question": "Which dog did Ann get?", "evidence": ["D1:1"], "category": 4},
            {"question": "What became of the boiler?", "evidence": ["D1:2; D:2:1"], "category": 1},
            {"question": "What does Bob's dog do?", "evidence": ["D1:3"], "category": 5},
            {"question": "What do they like?", "evidence": [], "category": 3},
        ],
    }


def beam(folder: Path) -> Path:
    messages = [
        {
            "role": "user",
            "id": 0,
            "time_anchor": "March-15-2024",
            "content": "My port is 8080 ->-> 1,1",
        },
        {"role": "assistant", "id": 1, "content": "Then open 8080 in the firewall."},
    ]
    later = [{"role": "user", "id": 2, "time_anchor": "April-02-2024", "content": "Now it is 9090"}]
    chat = {
        "chat": [
            {"batch_number": 1, "turns": [messages]},
            {"batch_number": 2, "turns": [later]},
        ],
        "probing_questions": {
            "knowledge_update": [
                {
                    "question": "Which port do I use?",
                    "source_chat_ids": {"original_info": [0], "updated_info": [2]},
                }
            ],
            "abstention": [{"question": "Which colour is my bicycle?"}],
        },
    }
    write_json(folder / "a-chat.json", chat)
    return folder


def beir(folder: Path) -> Path:
    write_lines(
        folder / "corpus.jsonl",
        {"_id": "d1", "title": "Moths", "text": "Moths steer by the moon."},
        {"_id": "d2", "title": "", "text": "Bees dance to tell where nectar is."},
    )
    write_lines(
        folder / "queries.jsonl",
        {"_id": "1", "text": "How do bees tell of nectar?"},
        {"_id": "2", "text": "Nobody judged this one."},
    )
    judged = "query-id\tcorpus-id\tscore\n1\td2\t1\n1\td1\t0\n"
    (folder / "qrels.tsv").write_text(judged, "utf-8")
    return folder


def longmemeval(path: Path) -> Path:
    def question_row(id_: str, question: str) -> dict[str, Any]:
        return {
            "question_id": id_,
            "question_type": "single-session-user",
            "question": question,
            "answer": "anything",
            "question_date": "2023/05/30 (Tue) 22:10",
            "haystack_session_ids": ["s1", "s2"],
            "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 10:00"],
            "haystack_sessions": [
                [
                    {"role": "user", "content": "I play the cello.", "has_answer": True},
                    {"role": "assistant", "content": "A fine instrument!"},
                ],
                [{"role": "user", "content": "What rhymes with orange?"}],
            ],
            "answer_session_ids": ["s1"],
        }

    rows = [
        question_row("q1", "Which instrument do I play?"),
        question_row("q2_abs", "Which car do I drive?"),
    ]
    return write_json(path, rows)


def longmemeval_as_published(path: Path) -> Path:
    """Write what the published file has and a tidy one has not.

    Numbers as answers, blank turns, a session that comes twice, one without turns, and sessions
    that are not in the order of their dates.
    """

    def row(id_: str, *, answer: object, sessions: dict[str, str], twice: str) -> dict[str, Any]:
        turns_of = {
            "answer_1": [
                {"role": "user", "content": "I play in 2 string quartets.", "has_answer": True},
                {"role": "assistant", "content": "Who listens to them?", "has_answer": False},
            ],
            "answer_2": [
                {"role": "user", "content": "I joined a third quartet.", "has_answer": True}
            ],
            "sharegpt_yywfIrx_0": [
                {"role": "user", "content": "What rhymes with orange?"},
                {"role": "assistant", "content": ""},
            ],
            "ultrachat_7": [],
        }
        ids = [*sessions, *([twice] if twice else ())]
        return {
            "question_id": id_,
            "question_type": "multi-session",
            "question": "In how many quartets do I play?",
            "answer": answer,
            "question_date": "2023/05/30 (Tue) 23:40",
            "haystack_dates": [sessions[one] for one in ids],
            "haystack_session_ids": ids,
            "haystack_sessions": [turns_of[one] for one in ids],
            "answer_session_ids": [one for one in sessions if one.startswith("answer")],
        }

    fillers = {
        "sharegpt_yywfIrx_0": "2023/05/21 (Sun) 10:00",
        "ultrachat_7": "2023/05/20 (Sat) 02:21",
    }
    evidence = {"answer_2": "2023/05/29 (Mon) 18:05", "answer_1": "2023/05/02 (Tue) 08:30"}
    rows = [
        row("e47becba", answer=3, sessions=evidence | fillers, twice="sharegpt_yywfIrx_0"),
        row("gpt4_59c863d7_abs", answer="It was not said.", sessions=fillers, twice=""),
    ]
    return write_json(path, rows)


def own(folder: Path) -> Path:
    write_lines(
        folder / "memories.jsonl",
        {"id": "m1", "kind": "fact", "text": "The gate code is changed every Monday.", "by": "Ann"},
        {"id": "m2", "kind": "message", "text": "Lunch at one?", "by": "Bob", "thread": "chat"},
    )
    write_lines(
        folder / "questions.jsonl",
        {"id": "1", "question": "When is the gate code changed?", "gold": ["m1"]},
        {"id": "2", "question": "Who won the election?"},
    )
    return folder


def statebench(path: Path) -> Path:
    def row(
        id_: str, track: str, *events: dict[str, Any], facts: Sequence[dict[str, str]] = ()
    ) -> dict[str, Any]:
        return {
            "id": id_,
            "track": track,
            "initial_state": {
                "identity_role": {"user_name": "Ada"},
                "environment": {"now": "2026-01-05T09:00:00"},
                "persistent_facts": list(facts),
            },
            "events": list(events),
        }

    def turn(minute: int, text: str, speaker: str = "user") -> dict[str, Any]:
        at = f"2026-01-05T09:{minute:02}:00"
        return {"ts": at, "type": "conversation_turn", "speaker": speaker, "text": text}

    def wrote(minute: int, key: str, value: str) -> dict[str, Any]:
        write = {"key": key, "value": value, "source": {"type": "user"}}
        return {"ts": f"2026-01-05T09:{minute:02}:00", "type": "supersession", "writes": [write]}

    def question(minute: int, prompt: str, must: list[str], must_not: list[str]) -> dict[str, Any]:
        truth = {"must_mention": must, "must_not_mention": must_not}
        at = f"2026-01-05T09:{minute:02}:00"
        return {"ts": at, "type": "query", "prompt": prompt, "ground_truth": truth}

    restricted = "[RESTRICTED: Pay data restricted to HR] The bonus of the harbour team is 12%"
    facts = [
        {"key": "shared_fact_0", "value": "The harbour team has a review in May"},
        {"key": "restricted_fact_0", "value": restricted},
    ]
    return write_lines(
        path,
        row(
            "t1",
            "supersession",
            turn(1, "The ferry to Oslo leaves at 08:15."),
            turn(2, "Noted.", speaker="assistant"),
            wrote(30, "ferry_time_v2", "The ferry to Oslo now leaves at 09:40."),
            question(31, "When does the ferry to Oslo leave?", ["09:40"], ["08:15"]),
        ),
        row(
            "t2",
            "scope_permission",
            question(5, "What is planned for the harbour team?", ["review"], ["12%", "bonus"]),
            facts=facts,
        ),
        row("t3", "causality", question(5, "Which ship?", ["none"], [])),
    )
