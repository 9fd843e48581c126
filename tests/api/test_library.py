"""The library: the contract verbatim, with the real embedder."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

import commonbrain
from commonbrain.embeddings.local import MiniLmEmbedder
from tests.processes import TIMEOUT_S, clean_environment

HEAVY = ("onnxruntime", "tokenizers", "mcp", "typer", "rich", "sqlalchemy")


def test_library_has_its_documented_contract(path: Path) -> None:
    with commonbrain.open(str(path)) as brain:
        done = brain.remember("We chose Postgres over MySQL for RLS", kind="fact", project="api")
        assert done.items[0].status == "stored"
        id_ = done.items[0].id
        assert id_ is not None
        assert id_.startswith("mem_")
        reply = brain.recall("why postgres?", max_items=5)
        assert reply.items[0].id == id_
        assert reply.items[0].body == "We chose Postgres over MySQL for RLS"
        assert 0 < reply.tokens <= 1400
        assert reply.verdict == "found"
        assert reply.trace_id.startswith("trc_")
        assert brain.get(id_).project == "api"
        new = brain.revise.supersede(
            id_, "We chose CockroachDB for two regions", reason="A second region came."
        )
        assert new.status == "stored"
        assert new.id is not None
        assert brain.get(id_).current_id == new.id
        brain.forget(new.id, reason="Only a test.")
        assert brain.recall("cockroach").items == ()


def test_store_without_a_path_is_that_of_the_environment(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMMONBRAIN_STORE", str(path))
    with commonbrain.open() as brain:
        assert brain.status().store == str(path)


@pytest.mark.requirement("DM-17")
def test_agents_of_one_process_share_a_brain_under_their_own_names(path: Path) -> None:
    with commonbrain.open(path) as brain:
        ann = brain.acting_as(agent="ann", project="api", session="s-1")
        bob = brain.acting_as(agent="bob")
        shared = ann.remember("The api answers on port 8080.").items[0].id
        secret = ann.remember("Ann thinks the api is slow.", scope="private").items[0].id
        assert shared is not None
        assert secret is not None
        seen = bob.get(shared)
        assert (seen.agent, seen.project, seen.session) == ("ann", "api", "s-1")
        assert ann.get(secret).agent == "ann"
        with pytest.raises(commonbrain.NotFoundError):
            bob.get(secret)


def test_errors_have_a_class_a_code_and_a_hint(path: Path) -> None:
    with commonbrain.open(path) as brain:
        with pytest.raises(commonbrain.NotFoundError) as missing:
            brain.get("mem_0000000000000")
        with pytest.raises(commonbrain.InvalidInputError):
            brain.get("nonsense")
        with pytest.raises(commonbrain.RejectedError):
            brain.recall("x", max_items=1000)
        with pytest.raises(commonbrain.InvalidInputError):
            brain.acting_as(agent="")
    with pytest.raises(commonbrain.InvalidInputError):
        commonbrain.open(path.parent)
    with pytest.raises(commonbrain.UnavailableError):
        commonbrain.open(path / "below a file")
    (path.parent / "noise").write_bytes(b"noise" * 1000)
    with pytest.raises(commonbrain.StoreCorruptError):
        commonbrain.open(path.parent / "noise")

    assert isinstance(missing.value, commonbrain.CommonbrainError)
    assert (missing.value.code, bool(missing.value.hint)) == ("not_found", True)


def test_import_of_the_library_loads_nothing_heavy() -> None:
    program = f"import sys, commonbrain; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )

    assert done.stdout.strip() == "[]"


def test_two_brains_of_one_process_on_one_file_share_their_memories(path: Path) -> None:
    with commonbrain.open(path) as one, commonbrain.open(path) as two:
        stored = one.remember("The kettle is in the blue cupboard.").items[0].id
        assert [item.id for item in two.recall("where is the kettle?").items] == [stored]


def test_one_brain_can_be_called_by_several_threads(path: Path) -> None:
    texts = [f"Machine number {n} stands in hall {n * 7}." for n in range(24)]
    with commonbrain.open(path) as brain, ThreadPoolExecutor(8) as pool:
        done = list(
            pool.map(brain.remember, [commonbrain.Draft(body=text, kind="event") for text in texts])
        )
        replies = list(pool.map(brain.recall, texts))
        assert brain.doctor().is_sound

    assert [one.items[0].status for one in done] == ["stored"] * len(texts)
    assert all(one.verdict == "found" for one in replies)


def test_closing_a_brain_twice_or_a_view_is_harmless(path: Path) -> None:
    brain = commonbrain.open(path)
    brain.recall("anything?")
    brain.acting_as(agent="ann").close()
    brain.close()
    brain.close()


@pytest.mark.requirement("DM-39", "MS-03", "RT-14")
def test_memories_of_every_kind_are_recalled_by_word_and_by_meaning(
    path: Path, subtests: pytest.Subtests
) -> None:
    text = "Her car is parked in the garage."
    with commonbrain.open(path) as brain:
        for kind in ("message", "event", "atom", "fact"):
            with subtests.test(kind=kind):
                id_ = brain.remember(text, kind=kind, distinct_because="another kind").items[0].id
                [by_word] = brain.recall("garage", kinds=[kind]).items
                [by_meaning] = brain.recall(
                    "Where does she keep her automobile?", kinds=[kind]
                ).items
                assert by_word.id == by_meaning.id == id_
                assert "words" in by_word.why
                assert by_meaning.why == ("meaning",)


@pytest.mark.requirement("DO-16")
def test_packaged_model_is_the_default_and_global_scope_is_the_tenant(path: Path) -> None:
    with commonbrain.open(path, agent="ann") as brain:
        stored = brain.remember("The api answers on port 8080.", scope="global").items[0].id
        assert stored is not None
        assert brain.services.embedder.space.name == MiniLmEmbedder().space.name
        assert files("commonbrain_minilm").is_dir()
        bob = brain.acting_as(agent="bob", project="web")
        assert [item.id for item in bob.recall("Where does the api answer?").items] == [stored]
        stranger = commonbrain.Brain(brain.services, replace(brain.caller, tenant="other"))
        with pytest.raises(commonbrain.NotFoundError):
            stranger.get(stored)
