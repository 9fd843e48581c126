"""Regular expressions that are compiled when they are first used.

The rules of English are over three hundred patterns, of which a command uses few; compiling all
would take longer than importing the library of the database.
"""

import re
from typing import Any, AnyStr, Final, cast

_PARTS: Final = tuple(name for name in dir(re.Pattern) if not name.startswith("_"))
"""What a compiled pattern offers: `search`, `match`, `sub`, `groups` and so on."""


class _LazyPattern:
    """A stand-in for a pattern; after the first use it has the methods of the compiled one."""

    def __init__(self, source: str | bytes, flags: int) -> None:
        # An attribute that is set does not reach `__getattr__`: composing patterns compiles none.
        self.pattern = source
        self._given_flags = flags

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 methods and numbers
        if name not in _PARTS:
            raise AttributeError(f"A pattern has no {name}.")
        compiled = re.compile(self.pattern, self._given_flags)
        vars(self).update((part, getattr(compiled, part)) for part in _PARTS)
        return getattr(compiled, name)


def lower_case(text: str) -> str:
    """Return a text for patterns in lower case, which are faster than those that ignore case.

    "İ" becomes "i" as other letters do, without the dot that Unicode puts after it.
    """
    return text.lower().replace("i\u0307", "i")


def lazy_pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what `re.compile` returns, but compile it on first use; then it is as fast.

    Only its methods may be used: functions such as `re.sub` accept no stand-in.
    """
    return cast("re.Pattern[AnyStr]", _LazyPattern(source, flags))
