"""How the runs of hooks are recorded among the tool events: what each showed, and to whom."""

import re
from typing import Final

from commonbrain.model import ids
from commonbrain.model.limits import EVENT_ARGS_CHARS_MAX
from commonbrain.model.values import dataclass
from commonbrain.text.tokens import estimate

HOOK_TRANSPORT: Final = "hook"
"""The transport of the events of hooks."""
_PREFIX: Final = "hook."
_MEMORY: Final = re.compile(rf"\b{ids.MEMORY}_[0-9A-HJKMNP-TV-Z]{{13}}\b")
_ARGS: Final = re.compile(r"shown=(\d+) tokens=(\d+)(?: ids=([\w,]+))?")
_IDS_MAX: Final = 3


def hook_tool(client: str, event: str) -> str:
    """Return the name of a hook as a tool."""
    return f"{_PREFIX}{client}.{event}"


def hook_of(tool: str) -> tuple[str, str]:
    """Return client and event of the name of a hook."""
    client, _, event = tool.removeprefix(_PREFIX).partition(".")
    return client, event


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCounts:
    """What one run of a hook showed."""

    memories: int = 0
    tokens: int = 0
    ids: tuple[str, ...] = ()
    """The first three of them."""

    @classmethod
    def of(cls, text: str) -> "ShownCounts":
        """Read it from the text that the client's model gets."""
        named = tuple(dict.fromkeys(_MEMORY.findall(text)))
        tokens = estimate(text) if text else 0
        return cls(memories=len(named), tokens=tokens, ids=named[:_IDS_MAX])

    @classmethod
    def read(cls, args: str) -> "ShownCounts":
        """Read it from the arguments of an event; nothing if they are of another form."""
        match = _ARGS.match(args)
        if match is None:
            return cls()
        memories, tokens, named = match.groups()
        return cls(
            memories=int(memories),
            tokens=int(tokens),
            ids=tuple(named.split(",")) if named else (),
        )

    @property
    def args(self) -> str:
        """The arguments of its event, in `EVENT_ARGS_CHARS_MAX` characters."""
        line = f"shown={self.memories} tokens={self.tokens}"
        for count in range(len(self.ids), 0, -1):
            whole = f"{line} ids={','.join(self.ids[:count])}"
            if len(whole) <= EVENT_ARGS_CHARS_MAX:
                return whole
        return line
