"""Distributions as pip installs them: their metadata in a folder of the path."""

from pathlib import Path


def add_distribution(folder: Path, name: str, entry_points: str = "") -> None:
    """Write the metadata of a distribution into a folder that is to come first on the path.

    One of the same name that is installed elsewhere is hidden, so that its entry points are gone.
    """
    metadata = folder / f"{name.replace('-', '_')}-9.0.dist-info"
    metadata.mkdir(parents=True)
    header = f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.0\n"
    (metadata / "METADATA").write_text(header, "utf-8")
    (metadata / "entry_points.txt").write_text(entry_points, "utf-8")
