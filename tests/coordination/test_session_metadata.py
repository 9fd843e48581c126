"""What sessions say of themselves: branch, worktree, model and more."""

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.limits import METADATA_CHARS_MAX, SESSION_METADATA_MAX
from tests.at_work import FOLDER, at_work, processes_of, shown, stored_session
from tests.secrets import SECRETS


@pytest.mark.requirement("DM-35")
def test_other_agents_see_the_branch_worktree_and_model_of_a_session(brain: Brain) -> None:
    processes_of(brain).checkouts[FOLDER] = {"branch": "fix/parser", "worktree": "/home/ann/api-2"}
    at_work(brain, "k1").boot("api", "Mend it", metadata={"model": "opus 5", "ticket": "API-7"})

    [sibling] = brain.acting_as(session="k2").boot("api").siblings
    assert sibling.note == "branch fix/parser, worktree api-2, model opus 5"
    assert "branch fix/parser" in brain.acting_as(session="k3").boot("api").text
    others = {one.session: one.metadata for one in shown(brain)}
    assert others["k1"] == {
        "branch": "fix/parser",
        "worktree": "/home/ann/api-2",
        "model": "opus 5",
        "ticket": "API-7",
    }


@pytest.mark.requirement("DM-35")
def test_given_metadata_takes_precedence_over_the_folder(
    brain: Brain,
) -> None:
    processes_of(brain).checkouts[FOLDER] = {"branch": "main"}
    ann = at_work(brain, "k1")
    ann.boot("api", "Mend it", metadata={"model": "opus", "ticket": "API-7"})

    ann.session.task(metadata={"branch": "fix/parser", "ticket": ""})
    session = stored_session(brain, "k1")
    assert session.task == "Mend it"
    assert session.metadata == {"branch": "fix/parser", "model": "opus"}

    ann.session.task("Paint it")
    session = stored_session(brain, "k1")
    assert (session.task, session.metadata["branch"]) == ("Paint it", "main")


def test_session_metadata_out_of_bounds_is_refused(brain: Brain, subtests: pytest.Subtests) -> None:
    for metadata in (
        {"": "x"},
        {"x" * 65: "x"},
        {"branch": "x" * (METADATA_CHARS_MAX + 1)},
        {f"n{number}": "x" for number in range(SESSION_METADATA_MAX + 1)},
        {"a\nb": "x"},
    ):
        with subtests.test(metadata=metadata):
            ann = brain.acting_as(session="k1")
            with pytest.raises(InvalidInputError):
                ann.session.task(metadata=metadata)
            with pytest.raises(InvalidInputError):
                ann.boot(metadata=metadata)


def test_session_metadata_with_a_secret_is_refused(brain: Brain) -> None:
    secret = next(iter(SECRETS.values()))[0]
    with pytest.raises(RejectedError):
        brain.acting_as(session="k1").session.task(metadata={"key": f"Use {secret} for it"})


def test_metadata_added_to_a_session_beyond_the_limit_is_refused(brain: Brain) -> None:
    ann = brain.acting_as(session="k1")
    ann.session.task("x", metadata={f"n{number}": "x" for number in range(SESSION_METADATA_MAX)})
    with pytest.raises(InvalidInputError):
        ann.session.task(metadata={"more": "x"})
