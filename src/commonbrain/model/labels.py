"""Labels of memories that the program itself makes."""

from typing import Final

SUMMARY: Final = "reflection"
"""Label of episodes made by a reflection, and of the facts that it proposes."""
COMPACTED: Final = "compaction"
"""Label of an episode that summarizes what was found for a question."""
CORRECTION: Final = "correction"
"""Label of rules proposed because the same correction was made several times."""
