"""JSON text changed in place: one member is put in or taken out, every other byte stays.

Reading and writing the whole would reformat numbers, escapes and lists that are not ours.
"""

import json
import re
from dataclasses import dataclass
from typing import Final

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member of an object: its key and value, and where in the text they stand."""

    key: str
    value: object
    start: int
    value_start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonObject:
    """An object in a valid text, from its opening brace to past its closing one."""

    text: str
    start: int
    end: int
    members: tuple[Member, ...]

    def find(self, key: str) -> Member | None:
        """Find a member; of several the last, which is the one that readers of JSON take."""
        return next((one for one in reversed(self.members) if one.key == key), None)

    def object_at(self, member: Member) -> "JsonObject":
        """Take a member's value, which must be an object, apart in its turn."""
        return read_object(self.text, member.value_start)

    def with_value(self, member: Member, value: object) -> str:
        """Give the text with another value for a member."""
        shown = _dumped(self.text, value, indent=_indent(self.text, member.start))
        return self.text[: member.value_start] + shown + self.text[member.end :]

    def with_member(self, key: str, value: object) -> str:
        """Give the text with one more member at the object's end, laid out like the others."""
        line_end = _line_end(self.text)
        if self.members:
            indent = _indent(self.text, self.members[0].start)
        else:
            outer = _indent(self.text, self.start)
            indent = None if outer is None else outer + unit(self.text)
        shown = f"{json.dumps(key)}: {_dumped(self.text, value, indent=indent)}"
        if self.members:
            gap = " " if indent is None else line_end + indent
            at = self.members[-1].end
            return f"{self.text[:at]},{gap}{shown}{self.text[at:]}"
        inside = shown
        if indent is not None:
            closing = line_end + (_indent(self.text, self.start) or "")
            inside = line_end + indent + shown + closing
        return f"{self.text[: self.start]}{{{inside}}}{self.text[self.end :]}"

    def without(self, member: Member) -> str:
        """Give the text without a member and without the comma it needed."""
        at = self.members.index(member)
        if len(self.members) == 1:
            start, end = self.start + 1, self.end - 1
        elif at == 0:
            start, end = member.start, self.members[1].start
        else:
            start, end = self.members[at - 1].end, member.end
        return self.text[:start] + self.text[end:]


def read_object(text: str, at: int = 0) -> JsonObject:
    """Take apart the object that begins at or after `at`; the text must be valid JSON.

    Raises:
        ValueError: there is no object.

    """
    start = _past_space(text, at)
    if text[start : start + 1] != "{":
        raise ValueError("Not an object.")
    members: list[Member] = []
    position = _past_space(text, start + 1)
    while text[position] != "}":
        key, key_end = _value(text, position)
        value_start = _past_space(text, _past_space(text, key_end) + 1)
        value, end = _value(text, value_start)
        members.append(
            Member(key=str(key), value=value, start=position, value_start=value_start, end=end)
        )
        after = _past_space(text, end)
        position = _past_space(text, after + 1) if text[after] == "," else after
    return JsonObject(text=text, start=start, end=position + 1, members=tuple(members))


def unit(text: str) -> str:
    """Guess one step of indentation from the first member of the outermost object."""
    inside = _SPACE.match(text, text.index("{") + 1)
    gap = inside.group() if inside else ""
    return gap.rpartition("\n")[2] if "\n" in gap and not gap.endswith("\n") else "  "


def _value(text: str, at: int) -> tuple[object, int]:
    return _DECODER.raw_decode(text, at)


def _past_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _indent(text: str, at: int) -> str | None:
    """Give the indentation of the line on which something stands; None in a text of one line."""
    if "\n" not in text.strip():
        return "" if text.strip() in {"{}", "{ }"} else None
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _dumped(text: str, value: object, *, indent: str | None) -> str:
    if indent is None:
        return json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, ensure_ascii=False, indent=unit(text)).split("\n")
    return (_line_end(text) + indent).join(lines)
