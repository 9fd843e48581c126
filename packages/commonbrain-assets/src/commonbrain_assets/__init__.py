"""The third-party scripts and styles of the web page, as files."""

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("files")
"""Contains `htmx.min.js`, `uPlot.iife.min.js`, `uPlot.min.css` and `cytoscape.min.js`."""

__all__ = ["FOLDER"]
