"""Formats of other packages come by entry points; without a package, what to install is said."""

import json
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError
from commonbrain.transfer.importer import missing_formats
from commonbrain.transfer.importers import IMPORTERS, InstalledImporters
from tests.distributions import add_distribution
from tests.in_process import run_brain

INSTALL = "pip install 'commonbrain[import]'"
LINES = """
from commonbrain.model.memory import Draft
from commonbrain.transfer.importer import Importer, ImportItem

class Lines(Importer):
    name = "lines"
    purpose = "A text with one memory on each line"

    def read(self, source):
        for number, line in enumerate(source.read_text().splitlines(), 1):
            yield ImportItem(content=Draft(body=line, source_ref=f"line {number}"), progress=1.0)

IMPORTER = Lines()
"""
ROWS = """
[commonbrain.importers]
lines = lines_of_ann:IMPORTER
markdown = lines_of_ann:IMPORTER
"""


@pytest.fixture
def without_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hide commonbrain-import; return the folder that does it."""
    folder = tmp_path / "hidden"
    add_distribution(folder, "commonbrain-import")
    monkeypatch.syspath_prepend(folder)  # pyright: ignore[reportUnknownMemberType]
    return folder


def test_format_of_an_installed_package_is_imported(
    brain: Brain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_distribution(tmp_path / "site", "lines-of-ann", ROWS)
    (tmp_path / "site" / "lines_of_ann.py").write_text(LINES, "utf-8")
    monkeypatch.syspath_prepend(tmp_path / "site")  # pyright: ignore[reportUnknownMemberType]
    source = tmp_path / "tides.txt"
    source.write_text("High tide is at noon.\nLow tide is at six.\n")

    assert brain.import_("lines", source).stored == 2
    assert InstalledImporters()["markdown"] is IMPORTERS["markdown"]


def test_importer_of_an_old_package_is_refused_and_not_listed(
    brain: Brain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "[commonbrain.importers]\nmem0 = old_lines:IMPORTER"
    add_distribution(tmp_path / "site", "commonbrain-import", rows)
    (tmp_path / "site" / "old_lines.py").write_text(LINES.replace("(Importer)", ""), "utf-8")
    monkeypatch.syspath_prepend(tmp_path / "site")  # pyright: ignore[reportUnknownMemberType]
    for refused in (brain.import_, brain.jobs.import_):
        with pytest.raises(InvalidInputError, match="mem0 is not an Importer"):
            refused("mem0", tmp_path)
    assert [*InstalledImporters()] == [*IMPORTERS]
    assert "mem0" in missing_formats(InstalledImporters())


@pytest.mark.usefixtures("without_package")
def test_format_whose_package_is_missing_is_refused_with_the_extra_to_install(
    brain: Brain, tmp_path: Path
) -> None:
    source = tmp_path / "export.json"
    source.write_text("[]")
    for refused in (brain.import_, brain.jobs.import_):
        with pytest.raises(InvalidInputError) as caught:
            refused("mem0", source)
        assert caught.value.code == "extra_missing"
        assert INSTALL in (caught.value.hint or "")


def test_unknown_format_is_refused_with_those_that_there_are(brain: Brain, tmp_path: Path) -> None:
    for refused in (brain.import_, brain.jobs.import_):
        with pytest.raises(InvalidInputError, match="There is no importer for 'mem9'") as caught:
            refused("mem9", tmp_path)
        assert {*IMPORTERS, "mem0"} <= set((caught.value.hint or "").replace(",", " ").split())


@pytest.mark.usefixtures("without_package")
def test_command_lists_what_the_extra_adds(tmp_path: Path) -> None:
    store = {"COMMONBRAIN_STORE": str(tmp_path / "brain.db"), "HOME": str(tmp_path / "home")}
    formats, sources = (run_brain("import", option, **store) for option in ("--formats", "--find"))
    listed = json.loads(run_brain("import", "--formats", "--json", **store).out)
    assert set(listed) == {*IMPORTERS, "commonbrain"}
    assert "chatgpt" in formats.out
    for finished in (formats, sources):
        assert " ".join(finished.out.split()).count(INSTALL) == 1
    refused = run_brain("import", "mem0", str(tmp_path), **store)
    assert refused.status != 0
    assert INSTALL in refused.err


def test_command_does_not_mention_the_extra_once_it_is_installed(tmp_path: Path) -> None:
    store = {"COMMONBRAIN_STORE": str(tmp_path / "brain.db"), "HOME": str(tmp_path / "home")}
    for option in ("--formats", "--find"):
        assert "pip install" not in run_brain("import", option, **store).out


def test_help_of_the_command_names_every_format() -> None:
    shown = "".join(run_brain("import", "--help").out.split())
    assert [name for name in InstalledImporters() if name not in shown] == []
