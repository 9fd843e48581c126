"""Foreign formats in, drafts out, lazily.

`IMPORTERS` is the table: to add a format, add a file and a row.
"""

from collections.abc import Mapping
from typing import Final

from commonbrain.importers.conversations import ConversationFile
from commonbrain.importers.markdown import MarkdownFolder
from commonbrain.ports.importing import Importer

IMPORTERS: Final[Mapping[str, Importer]] = {
    importer.name: importer for importer in (ConversationFile(), MarkdownFolder())
}
