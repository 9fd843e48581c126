"""The comparison with other memories: those that need no network, and what becomes of the rest."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.peers.comparison import peers, ratios, table_line
from benchmarks.peers.conversations import Conversation, Question, read_conversations
from benchmarks.peers.driver import Measured, WorkerError, measure
from benchmarks.peers.environments import ROOT, Environment
from benchmarks.peers.systems import OURS, PEERS, REFERENCE, Peer
from benchmarks.timing import Lap
from tests.eval_samples import locomo

HERE = Environment(python=Path(sys.executable), installed_mb=0.0)
CONVERSATION = Conversation(
    texts=(
        ("talk#D1:1", "Ann: I adopted a puppy called Rex last week."),
        ("talk#D1:2", "Bob: The weather in Lisbon is lovely today."),
        ("talk#D1:3", "Ann: My sister repairs old violins in Cremona."),
    ),
    questions=(
        Question(text="What is the name of Ann's puppy?", evidence=frozenset({"talk#D1:1"})),
        Question(text="Who repairs violins?", evidence=frozenset({"talk#D1:3"})),
    ),
    sample={},
)


def peer(name: str) -> Peer:
    return next(one for one in PEERS if one.name == name)


def test_peer_stores_all_texts_and_finds_the_evidence(subtests: pytest.Subtests) -> None:
    for name in ["plain FTS5", OURS]:
        with subtests.test(name=name):
            measured = measure(peer(name), HERE, [CONVERSATION, CONVERSATION])

            assert (measured.given, measured.stored) == (6, 6)
            assert [len(measured.writes), len(measured.searches)] == [6, 4]
            assert measured.recall_at(5) == 100.0
            assert all(megabytes > 1 for megabytes in measured.resident_mb)
            assert table_line(measured).split()[-1] == "100.0"


def test_evidence_counts_only_when_all_of_it_is_found() -> None:
    both = Question(text="puppy", evidence=frozenset({"talk#D1:1", "talk#D1:2"}))
    conversation = Conversation(texts=CONVERSATION.texts, questions=(both,), sample={})

    assert measure(peer("plain FTS5"), HERE, [conversation]).recall_at(10) == 0.0


def test_imported_conversation_is_found_by_the_references_of_its_turns(tmp_path: Path) -> None:
    path = locomo(tmp_path / "locomo.json")
    conversations = read_conversations(path)

    measured = measure(peer(f"{OURS}, import"), HERE, conversations)

    assert (
        measured.stored
        == measured.given
        == sum(len(conversation.texts) for conversation in conversations)
    )
    assert measured.recall_at(10) > 0


def test_peer_that_cannot_start_reports_the_reason() -> None:
    with pytest.raises(WorkerError, match="No module named 'langgraph"):
        measure(peer(REFERENCE), HERE, [CONVERSATION])


def test_peer_that_cannot_be_installed_is_listed_as_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    options = ["--data", str(locomo(tmp_path / "locomo.json")), "--folder", str(tmp_path / "kept")]

    shown = CliRunner().invoke(peers, [*options, "--only", REFERENCE])

    assert f"{REFERENCE}   not measured: uv is not installed" in shown.output


def test_limit_of_memories_selects_the_first_conversations(tmp_path: Path) -> None:
    path = locomo(tmp_path / "locomo.json")

    assert len(read_conversations(path, memories=1)) == 1
    assert len(read_conversations(path)) == len(json.loads(path.read_text("utf-8")))


def test_embedder_imports_only_packages_of_every_peer_environment() -> None:
    """Else the peers fail to import it; then add the package to each of their requirements."""
    code = (
        "import sys, sysconfig, benchmarks.peers.workers.embedding\n"
        "place = sysconfig.get_paths()['purelib']\n"
        "files = {name: str(getattr(it, '__file__', '')) for name, it in sys.modules.items()}\n"
        "print(*{name.partition('.')[0] for name, file in files.items() if place in file})"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    modules = set(ran.stdout.split()) - {"commonbrain_minilm"}

    assert "onnxruntime" in modules
    packages = {{"Stemmer": "pystemmer"}.get(module, module) for module in modules}
    for one in PEERS:
        if one.requirements is not None:
            listed = ROOT / "benchmarks" / "peers" / "requirements" / f"{one.requirements}.txt"
            lines = listed.read_text("utf-8").splitlines()
            assert packages <= {line.partition("==")[0] for line in lines}, one.name


def test_ratios_are_relative_to_the_reference_peer() -> None:
    ours = answered(OURS, process_ms=9.0, complete=[True, True])
    reference = answered(REFERENCE, process_ms=6.0, complete=[True, False])

    [ratio] = ratios([ours, reference])

    assert (ratio.process, ratio.wall, ratio.gain) == (1.5, 1.5, 50.0)
    assert "recall p50 1.50 by processor time" in str(ratio)
    assert ratios([ours]) == []


def answered(name: str, *, process_ms: float, complete: Sequence[bool]) -> Measured:
    searches = [Lap(wall_ms=process_ms, process_ms=process_ms) for _ in complete]
    return Measured(
        peer=peer(name), installed_mb=1, searches=searches, complete={10: list(complete)}
    )
