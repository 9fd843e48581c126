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
from tests.processes import PATIENCE_S, clean_environment

HEAVY = ("onnxruntime", "tokenizers", "mcp", "alembic", "typer", "rich", "sqlalchemy")


def test_the_contract_of_the_library_holds_as_written(path: Path) -> None:
    with commonbrain.open(str(path)) as brain:
        done = brain.remember("We chose Postgres over MySQL for RLS", kind="fact", project="api")
        assert done.items[0].status == "stored"
        id_ = done.items[0].id
        assert id_ is not None
        assert id_.startswith("mem_")
        found = brain.recall("why postgres?", max_items=5)
        assert found.items[0].id == id_
        assert found.items[0].body == "We chose Postgres over MySQL for RLS"
        assert 0 < found.tokens <= 1400
        assert found.verdict == "found"
        assert found.trace_id.startswith("trc_")
        assert brain.get(id_).project == "api"
        new = brain.revise.supersede(
            id_, "We chose CockroachDB for two regions", reason="A second region came."
        )
        assert new.status == "stored"
        assert new.id is not None
        assert brain.get(id_).current_id == new.id
        brain.forget(new.id, reason="Only a test.")
        assert brain.recall("cockroach").items == ()


def test_without_a_path_the_environment_says_which_store(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMMONBRAIN_STORE", str(path))
    with commonbrain.open() as brain:
        assert brain.status().store == str(path)


@pytest.mark.requirement("DM-17")
def test_agents_of_one_process_share_a_brain_each_under_its_own_name(path: Path) -> None:
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


def test_errors_are_told_apart_by_class_and_have_a_code_and_a_hint(path: Path) -> None:
    with commonbrain.open(path) as brain:
        with pytest.raises(commonbrain.NotFoundError) as missing:
            brain.get("mem_0000000000000")
        with pytest.raises(commonbrain.InvalidInputError):
            brain.get("nonsense")
        with pytest.raises(commonbrain.RejectedError):
            brain.recall("x", max_items=1000)
        with pytest.raises(commonbrain.InvalidInputError):
            brain.acting_as(agent="")
    with pytest.raises(commonbrain.UnavailableError):
        commonbrain.open(path.parent)
    (path.parent / "noise").write_bytes(b"noise" * 1000)
    with pytest.raises(commonbrain.StoreCorruptError):
        commonbrain.open(path.parent / "noise")

    assert isinstance(missing.value, commonbrain.CommonbrainError)
    assert (missing.value.code, bool(missing.value.hint)) == ("not_found", True)


def test_importing_loads_nothing_heavy() -> None:
    program = f"import sys, commonbrain; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )

    assert done.stdout.strip() == "[]"


def test_two_brains_on_one_file_in_one_process_see_each_other_s_memories(path: Path) -> None:
    with commonbrain.open(path) as one, commonbrain.open(path) as two:
        kept = one.remember("The kettle is in the blue cupboard.").items[0].id
        assert [item.id for item in two.recall("where is the kettle?").items] == [kept]


def test_threads_may_call_one_brain_at_once(path: Path) -> None:
    texts = [f"Machine number {n} stands in hall {n * 7}." for n in range(24)]
    with commonbrain.open(path) as brain, ThreadPoolExecutor(8) as pool:
        done = list(
            pool.map(brain.remember, [commonbrain.Draft(body=text, kind="event") for text in texts])
        )
        found = list(pool.map(brain.recall, texts))
        assert brain.doctor().is_sound

    assert [one.items[0].status for one in done] == ["stored"] * len(texts)
    assert all(one.verdict == "found" for one in found)


def test_closing_twice_and_closing_a_view_are_harmless(path: Path) -> None:
    brain = commonbrain.open(path)
    brain.recall("anything?")
    brain.acting_as(agent="ann").close()
    brain.close()
    brain.close()


@pytest.mark.requirement("DM-39", "MS-03", "RT-14")
@pytest.mark.parametrize("kind", ["message", "event", "atom", "fact"])
def test_whatever_was_said_or_learnt_is_found_by_word_and_by_meaning(path: Path, kind: str) -> None:
    with commonbrain.open(path) as brain:
        kept = brain.remember("Her car is parked in the garage.", kind=kind).items[0].id
        [by_word] = brain.recall("garage").items
        [by_meaning] = brain.recall("Where does she keep her automobile?").items

    assert by_word.id == by_meaning.id == kept
    assert "words" in by_word.why
    assert by_meaning.why == ("meaning",)


@pytest.mark.requirement("DO-16")
def test_the_packaged_model_is_the_default_and_global_means_the_whole_tenant(path: Path) -> None:
    with commonbrain.open(path, agent="ann") as brain:
        kept = brain.remember("The api answers on port 8080.", scope="global").items[0].id
        assert kept is not None
        assert brain.services.embedder.space.name == MiniLmEmbedder().space.name
        assert files("commonbrain_minilm").is_dir()
        bob = brain.acting_as(agent="bob", project="web")
        assert [item.id for item in bob.recall("Where does the api answer?").items] == [kept]
        stranger = commonbrain.Brain(brain.services, replace(brain.caller, tenant="other"))
        with pytest.raises(commonbrain.NotFoundError):
            stranger.get(kept)
