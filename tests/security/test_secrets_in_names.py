"""A secret in a name under which something is found again is refused, and stored nowhere."""

from collections.abc import Callable
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import RejectedError
from commonbrain.testing.builders import a_brain
from tests.secrets import SECRETS

TEXT, SECRET = SECRETS["github classic"]


def _upload(brain: Brain, *, name: str, project: str | None = None) -> object:
    file = Path(brain.services.store.location).with_name("a.md")
    file.write_text("The tea is served at noon.\n", "utf-8")
    return brain.jobs.import_("markdown", file, name=name, project=project)


CALLS: dict[str, Callable[[Brain], object]] = {
    "project of a boot": lambda brain: brain.boot(project=SECRET),
    "client of a boot": lambda brain: brain.boot(client=SECRET),
    "key of a call": lambda brain: brain.remember("Tea at noon", idempotency_key=SECRET),
    "name of an upload": lambda brain: _upload(brain, name=f"{SECRET}.md"),
    "project of an upload": lambda brain: _upload(brain, name="a.md", project=SECRET),
    "argument of a job": lambda brain: brain.jobs.run("consolidate", {"project": SECRET}),
}


def test_heading_with_a_secret_is_not_named_in_the_report(tmp_path: Path) -> None:
    notes = tmp_path / "notes.md"
    notes.write_text(f"# {SECRET}\n\nThe tea of {SECRET} is served at noon.\n", "utf-8")
    with a_brain(tmp_path / "brain.db") as brain:
        report = brain.import_("markdown", notes)

    [refusal] = report.refusals
    assert SECRET not in str(refusal)
    assert "piece 1" in refusal.where


@pytest.mark.parametrize("name", CALLS)
def test_secret_in_a_name_is_refused_and_not_stored(name: str, path: Path) -> None:
    with a_brain(path) as brain:
        with pytest.raises(RejectedError) as refused:
            CALLS[name](brain)
        assert refused.value.code == "secret_detected"
        assert SECRET not in str(refused.value)
    assert SECRET.encode() not in b"".join(one.read_bytes() for one in path.parent.glob("*"))
