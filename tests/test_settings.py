"""What settings choose, what they refuse, and that they never show a secret."""

import sys
import traceback
from datetime import timedelta
from pathlib import Path

import pytest

import commonbrain
from commonbrain.config import Settings
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import BOOT_CAPS
from commonbrain.model.scope import Caller
from commonbrain.model.sessions import ClientInfo, Process
from commonbrain.runtime.bootstrap import build_services
from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.testing.builders import FakeClock
from tests.model_server import ModelServer

KEY = "sk-do-not-tell-me"


def choose(monkeypatch: pytest.MonkeyPatch, **settings: object) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(f"COMMONBRAIN_{name.upper()}", str(value))


def test_settings_choose_an_endpoint(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer() as server:
        choose(
            monkeypatch,
            embedder="openai",
            embedder_model="word-hash",
            embedder_url=server.base("openai"),
            embedder_api_key=f"{KEY}\n",
            embedder_dimensions=384,
        )
        with commonbrain.open(path) as brain:
            brain.remember("Ann moved to Lisbon.")
            assert brain.recall("Where did Ann move?").items
            assert brain.status().space == "openai/word-hash/384"

    assert {request.headers["Authorization"] for request in server.requests} == {f"Bearer {KEY}"}


@pytest.mark.requirement("DM-45")
@pytest.mark.parametrize(
    ("made_with", "hint"),
    [
        ({"embedder": "minilm"}, "COMMONBRAIN_EMBEDDER=minilm"),
        (
            {"embedder": "ollama", "embedder_model": "BAAI/bge:v2", "embedder_dimensions": "8"},
            "COMMONBRAIN_EMBEDDER=ollama COMMONBRAIN_EMBEDDER_MODEL=BAAI/bge:v2 "
            "COMMONBRAIN_EMBEDDER_DIMENSIONS=8",
        ),
    ],
)
def test_refusal_of_another_embedding_space_names_the_settings_of_the_store(
    path: Path, monkeypatch: pytest.MonkeyPatch, made_with: dict[str, str], hint: str
) -> None:
    with pytest.MonkeyPatch.context() as before:
        choose(before, **made_with)
        commonbrain.open(path).close()
    stored = path.read_bytes()

    choose(monkeypatch, embedder="openai")
    with pytest.raises(commonbrain.StoreCorruptError) as refusal:
        commonbrain.open(path)

    assert refusal.value.code == "space_mismatch"
    assert "the embedder makes openai/text-embedding-3-small/1536" in refusal.value.message
    assert hint in refusal.value.hint
    assert path.read_bytes() == stored


def test_model_with_the_same_dimensions_is_another_embedding_space(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(monkeypatch, embedder="ollama", embedder_model="one", embedder_dimensions="384")
    commonbrain.open(path).close()

    choose(monkeypatch, embedder_model="two")
    with pytest.raises(commonbrain.StoreCorruptError, match="ollama/one/384; the embedder makes"):
        commonbrain.open(path)


def test_setting_out_of_bounds_is_named_and_makes_no_store(
    path: Path, subtests: pytest.Subtests
) -> None:
    for settings, text in (
        ({"embedder": "abacus"}, "minilm, multilingual, onnx:FOLDER, ollama, openai"),
        ({"embedder": "ollama", "embedder_model": "mine"}, "COMMONBRAIN_EMBEDDER_DIMENSIONS"),
        ({"embedder_timeout_s": "0"}, "COMMONBRAIN_EMBEDDER_TIMEOUT_S is '0'"),
        ({"embedder_retries": "99"}, "COMMONBRAIN_EMBEDDER_RETRIES is '99'"),
        ({"embedder_dimensions": "1"}, "COMMONBRAIN_EMBEDDER_DIMENSIONS is '1'"),
        ({"similar_threshold": "2"}, "COMMONBRAIN_SIMILAR_THRESHOLD is '2'"),
        ({"answer_threshold": "2"}, "COMMONBRAIN_ANSWER_THRESHOLD is '2'"),
        ({"relevance_threshold": "0.9"}, "must be above"),
    ):
        with subtests.test(settings=settings), pytest.MonkeyPatch.context() as patch:
            choose(patch, **settings)
            with pytest.raises(commonbrain.InvalidInputError) as refusal:
                commonbrain.open(path)
            assert text in str(refusal.value)
            assert not path.exists()


def test_defaults_of_settings_are_valid_unchecked() -> None:
    assert Settings.model_construct() == Settings()


def test_variables_and_then_files_of_the_folder_of_secrets_give_settings_in_any_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "COMMONBRAIN_AGENT").write_text("ann\n")
    (secrets / "commonbrain_project").write_text("hanoi\n")
    (secrets / "commonbrain_half_life_days").write_text('{"fact": 14}\n')
    (secrets / "another").write_bytes(b"\xff")
    monkeypatch.setenv("COMMONBRAIN_SECRETS_DIR", str(secrets))
    monkeypatch.setenv("commonbrain_agent", "bob")

    settings = load_settings()

    assert (settings.agent, settings.project) == ("bob", "hanoi")
    assert settings.half_life_days[Kind.FACT] == 14


def test_setting_of_an_older_program_is_ignored(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(monkeypatch, duplicate_threshold="0.9")
    with commonbrain.open(path) as brain:
        assert brain.remember("The kettle is blue").items[0].id


def test_refusal_of_a_setting_does_not_contain_its_secret(
    path: Path, subtests: pytest.Subtests
) -> None:
    for settings in (
        {"embedder_api_key": f"{KEY} and {KEY}\x07"},
        {"embedder_api_key": f"{KEY}\u00e9"},
        {"embedder": "openai", "embedder_url": f"http://ann:{KEY}@example.org"},
        {"embedder_url": f"http://{KEY * 200}"},
    ):
        with subtests.test(settings=settings), pytest.MonkeyPatch.context() as patch:
            choose(patch, **settings)
            with pytest.raises(commonbrain.InvalidInputError) as refusal:
                commonbrain.open(path)
            chain = [refusal.value, refusal.value.__cause__]
            assert KEY not in " ".join(f"{error} {error!r}" for error in chain)
            assert "COMMONBRAIN_EMBEDDER_" in refusal.value.message


def test_settings_and_embedder_do_not_show_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    choose(monkeypatch, embedder="ollama", embedder_api_key=KEY)
    settings = load_settings()

    shown = f"{settings} {settings!r} {settings.model_dump_json()} {make_embedder(settings)!r}"
    assert KEY not in shown


def test_thresholds_of_settings_hold_for_any_embedder(path: Path) -> None:
    services = build_services(
        Settings(similar_threshold=0.9, relevance_threshold=0.1, answer_threshold=0), path
    )
    with commonbrain.Brain(services, Caller(agent="ann")):
        space = services.store.space

    assert (space.similar_threshold, space.relevance_threshold) == (0.9, 0.1)
    assert space.answer_threshold == 0


def test_replicas_are_urls_separated_by_spaces_and_never_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = ("postgresql://ann:s3cret@one/brain", "postgresql://ann:s3cret@two/brain")
    monkeypatch.setenv("COMMONBRAIN_STORE_REPLICAS", f"{one}\n  {two}\n")
    settings = load_settings()
    assert [each.get_secret_value() for each in settings.store_replicas] == [one, two]
    assert "s3cret" not in repr(settings)

    monkeypatch.setenv("COMMONBRAIN_STORE_REPLICAS", "ann:s3cret@one/brain")
    with pytest.raises(
        commonbrain.InvalidInputError, match="COMMONBRAIN_STORE_REPLICAS"
    ) as refused:
        load_settings()
    assert "s3cret" not in str(refused.value)


@pytest.mark.requirement("SE-39")
def test_settings_set_when_a_silent_session_is_idle_and_when_it_ends(
    path: Path, monkeypatch: pytest.MonkeyPatch, clock: FakeClock
) -> None:
    choose(monkeypatch, session_idle_minutes=30, session_silent_hours=2)
    services = build_services(load_settings(), path, clock=clock)
    with commonbrain.Brain(services, Caller(agent="ann", session="one")) as ann:
        remote = ClientInfo(process=Process(host="afar", pid=7, created_at=clock.now()))
        silent = commonbrain.Brain(services, Caller(agent="bo", session="two", contact=remote))
        silent.boot()

        def listed() -> list[tuple[bool, bool]]:
            siblings, sessions = ann.boot().siblings, ann.session.list().sessions or ()
            return [
                (peer.is_idle, "idle" in (sibling.note or ""))
                for peer, sibling in zip(sessions, siblings, strict=True)
            ]

        clock.move(timedelta(minutes=30))
        assert listed() == [(False, False)]
        clock.move(timedelta(minutes=1))
        assert listed() == [(True, True)]
        clock.move(timedelta(minutes=88))
        assert listed() == [(True, True)]
        clock.move(timedelta(minutes=1))
        assert listed() == []


def test_times_of_sessions_have_bounds(subtests: pytest.Subtests) -> None:
    for name, value in (
        ("session_idle_minutes", 0),
        ("session_idle_minutes", 1441),
        ("session_silent_hours", 0),
        ("session_silent_hours", 721),
    ):
        with subtests.test(name=name, value=value), pytest.MonkeyPatch.context() as patch:
            choose(patch, **{name: value})
            with pytest.raises(commonbrain.InvalidInputError, match=name.upper()):
                load_settings()


def test_settings_limit_the_sections_of_a_briefing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(monkeypatch, boot_tasks=2, boot_note_chars=20, boot_handoff_chars=30, boot_tokens=1500)
    with commonbrain.open(path, agent="ann", project="shop", session="one") as brain:
        for number in range(4):
            brain.remember(f"Paint door {number}", kind="task", distinct_because="another door")
        brain.session.note("key", "The key of the till is under the mat", pinned=True)
        brain.session.handoff("The till is counted to June, July is still to be counted.")
        briefing = brain.acting_as(session="two").boot()

    assert len(briefing.tasks) == 2
    assert [len(one.value) for one in briefing.notes] == [20]
    assert briefing.handoff
    assert len(briefing.handoff.text) <= 31
    assert {cut.section for cut in briefing.truncated} == {"tasks", "handoff"}


def test_limit_of_a_briefing_section_has_bounds(subtests: pytest.Subtests) -> None:
    for section in sorted(BOOT_CAPS):
        with subtests.test(section=section), pytest.MonkeyPatch.context() as patch:
            choose(patch, **{f"boot_{section}": 0})
            assert getattr(load_settings(), f"boot_{section}") == 0
            choose(patch, **{f"boot_{section}": 51})
            with pytest.raises(commonbrain.InvalidInputError, match=f"boot_{section}".upper()):
                load_settings()


@pytest.mark.skipif(sys.platform == "win32", reason="rights are others there")
@pytest.mark.parametrize("content", [KEY.encode() + b"\xff", None])
def test_secret_that_cannot_be_read_is_named_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    file = tmp_path / "COMMONBRAIN_EMBEDDER_API_KEY"
    if content is None:
        # Not even the administrator reads it.
        file.symlink_to("/proc/self/mem")
    else:
        file.write_bytes(content)
    monkeypatch.setenv("COMMONBRAIN_SECRETS_DIR", str(tmp_path))
    if content is None and not file.is_file():
        pytest.skip("there is no such file here")

    with pytest.raises(InvalidInputError, match=file.name) as caught:
        load_settings()

    shown = "".join(traceback.format_exception(caught.value))
    assert KEY not in shown
    assert caught.value.__cause__ is None
