"""The text that a person typed in a prompt, without what the client put around it.

Clients send notices, results of tools and summaries of conversations as prompts. They are
recognized by their form, before anything heavy is imported; nobody waits for memories there.
"""

import re
from json import JSONDecoder
from typing import Final

from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.search_words import count_words

_CHARS_MAX: Final = 10_000
"""Characters that are read: five times the length of a query."""
_BLOCK: Final = lazy_pattern(r"<([A-Za-z]+(?:[-_][A-Za-z]+)+)\b[^<>]*>.*?</\1>", re.DOTALL)
"""A tag of a client and its content: `<task-notification>`, `<local-command-stdout>`. The names of
HTML elements have neither a hyphen nor an underscore."""
_NOTICE: Final = lazy_pattern(
    r"<[a-z]+(?:[-_][a-z]+)+\b[^<>]*>|\[(?:Request interrupted|System notification)"
    r"|This session is being continued from a previous conversation|Caveat: The messages below"
    r"|(?:Please )?continue (?:the conversation )?from where (?:you|we) left|(?:Stop|\w*ToolUse"
    r"|UserPromptSubmit|SessionStart|SubagentStop) hook (?:feedback|error)"
    r"|Base directory for this skill:|# \S+\.md instructions for |(?:Another|A) \w+ (?:session"
    r"|agent) sent a message|(?:Your|The|A) background (?:task|command|agent|job)\b"
    r"|(?:Background )?(?:task|command|agent) \S+ (?:completed|finished|failed|was stopped)\b"
    r"|The user (?:opened|selected|attached|interrupted|doesn't want|sent)\b|(?:Tool"
    r"|Function) (?:loaded|result|output|use|ran)\b|Unknown (?:skill|slash command|command):"
    r"|Exit code:? \d|API Error\b|\[?(?:Image|Attachment)[: #]",
    re.IGNORECASE,
)
"""The beginnings of notices of Claude Code, Codex, Cursor and Gemini. A person who
begins a prompt in these words asks for nothing that is stored."""
_DECODER: Final = JSONDecoder()
FORGET_WORD: Final = "#nomemory"
"""With this word in it, a prompt is neither searched for nor stored."""


def typed_text(prompt: str) -> str:
    """Return what a person typed: the prompt without blocks of the client and leading JSON.

    Empty if the whole prompt is the client's, or the person wants no memory for it.
    """
    if FORGET_WORD in prompt.casefold():
        return ""
    text = _without_json(_BLOCK.sub(" ", prompt[:_CHARS_MAX]).strip())
    return "" if _NOTICE.match(text) else text


def _without_json(text: str) -> str:
    """Remove JSON objects and lists from the beginning."""
    while text.startswith(("{", "[{", '["')):
        try:
            _, end = _DECODER.raw_decode(text)
        except (ValueError, RecursionError):
            return text
        text = text[end:].lstrip(" \t\r\n,")
    return text


_WORDS_MIN: Final = 3
"""A shorter text is an assent, a name or a number."""
_COMMAND: Final = lazy_pattern(r"/[\w:-]+(?:\s|$)|!")
"""Starts a client command or a shell line."""
_CHECKED_CHARS: Final = 2000


def is_trivial(text: str) -> bool:
    """Return whether a text is a client command, or too short to have a topic."""
    stripped = text[:_CHECKED_CHARS].strip()
    return _COMMAND.match(stripped) is not None or count_words(stripped) < _WORDS_MIN


_MAY_LAST: Final = lazy_pattern(
    r"\b(?:always|never|ever|any ?more|again|from (?:now|here|today)|going forward|future"
    r"|as a (?:general )?rule|henceforth|in general|whenever|(?:each|every|next) time|remember"
    r"|in mind|forget|note|aware|save|store|reference|record|correction|told you|forgetting|fyi"
    r"|heads[ -]up|prefer|preferred|usual|default|dislikes?|hates?|detests?|rather|favou?rites?"
    r"|preferences?|like|enjoy|stand|eat|drink|use|avoid|wear|fan|vegan|vegetarian|allergic"
    r"|intolerant|suits?|works?|stop|decided|decision|agreed|settled|chose|chosen|picked|opted"
    r"|standardi[sz]\w+|going with|moving|dropping|sticking|no|nope|nah|wrong|incorrect|not"
    r"|actually|convention|policy|style guide|rules?|repo|repository|project|codebase|team|company"
    r"|monorepo|only|don'?t|do not|off[- ]limits|allowed|keep (?:fixing|telling|correcting"
    r"|repeating)|(?:that|this) (?:goes|holds|applies)|that(?:'s| is))\b",
    re.IGNORECASE,
)
"""Words of which one is in every sentence that lasts; most prompts have none, and so load no more
than this."""


def may_last(text: str) -> bool:
    """Return whether what a person typed may say something that is to last."""
    return _MAY_LAST.search(text.replace("\u2019", "'")) is not None
