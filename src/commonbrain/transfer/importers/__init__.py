"""Foreign formats in, drafts out, lazily.

`IMPORTERS` is the table: to add a format, add a file and a row.
"""

from collections.abc import Mapping
from typing import Final

from commonbrain.transfer.importer import Importer
from commonbrain.transfer.importers.brain_db import BrainDb
from commonbrain.transfer.importers.brainstem import BrainstemDatabase
from commonbrain.transfer.importers.chatgpt import ChatGpt
from commonbrain.transfer.importers.claude_ai import ClaudeAi
from commonbrain.transfer.importers.claude_code import ClaudeCode
from commonbrain.transfer.importers.claude_mem import ClaudeMem
from commonbrain.transfer.importers.codex import Codex
from commonbrain.transfer.importers.conversations import ConversationFile
from commonbrain.transfer.importers.graphiti import GraphitiExport
from commonbrain.transfer.importers.letta import LettaAgentFile
from commonbrain.transfer.importers.markdown import MarkdownFolder
from commonbrain.transfer.importers.mcp_memory import McpMemoryGraph
from commonbrain.transfer.importers.mcp_memory_service import McpMemoryService
from commonbrain.transfer.importers.mem0 import Mem0
from commonbrain.transfer.importers.notes import BASIC_MEMORY, OBSIDIAN
from commonbrain.transfer.importers.open_brain import OpenBrain
from commonbrain.transfer.importers.openbrain import OpenBrainDump

IMPORTERS: Final[Mapping[str, Importer]] = {
    importer.name: importer
    for importer in (
        MarkdownFolder(),
        ConversationFile(),
        ClaudeCode(),
        Codex(),
        ChatGpt(),
        ClaudeAi(),
        BrainDb(),
        BrainstemDatabase(),
        OpenBrain(),
        OpenBrainDump(),
        McpMemoryGraph(),
        McpMemoryService(),
        Mem0(),
        ClaudeMem(),
        BASIC_MEMORY,
        OBSIDIAN,
        LettaAgentFile(),
        GraphitiExport(),
    )
}
