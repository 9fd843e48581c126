"""Edits JSON text in place: adds or removes one member; every other byte stays.

Parsing and writing the whole text would reformat numbers, escapes and lists of the user, and lose
the comments that several clients allow.
"""

import json
import re
from dataclasses import dataclass
from typing import Final

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()
_STRING: Final = r'"(?:[^"\\\n]|\\.)*"'
_STRING_OR_COMMENT: Final = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING_OR_LAST_COMMA: Final = re.compile(rf"{_STRING}|,(?=[ \t\r\n]*[}}\]])", re.DOTALL)
_NOT_SPACE: Final = re.compile(r"[^ \t\r\n]")
_LAST_COMMA: Final = "\t"
"""Replaces a trailing comma, which JSON does not allow but some clients do."""


def strip_comments(text: str) -> str:
    """Blank comments and trailing commas, so that the text is JSON of the same length."""
    bare = _STRING_OR_COMMENT.sub(_blanked, text)
    return _STRING_OR_LAST_COMMA.sub(
        lambda match: _LAST_COMMA if match.group() == "," else match.group(), bare
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonMember:
    """One member of an object: its key, its value and their positions in the text."""

    key: str
    value: object
    start: int
    value_start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonObject:
    """An object in a valid text, from its opening brace to after its closing one."""

    text: str
    strip_comments: str
    """The text as JSON, with the same length and positions."""
    start: int
    end: int
    members: tuple[JsonMember, ...]

    def find(self, key: str) -> JsonMember | None:
        """Find a member; the last of several, as JSON parsers do."""
        return next((one for one in reversed(self.members) if one.key == key), None)

    def object_at(self, member: JsonMember) -> "JsonObject":
        """Return a member's value, which must be an object."""
        return read_object(self.text, member.value_start)

    def with_value(self, member: JsonMember, value: object) -> str:
        """Return the text with another value for a member."""
        shown = _dump_value(self.text, value, indent=_indent(self.text, member.start))
        return self.text[: member.value_start] + shown + self.text[member.end :]

    def with_member(self, key: str, value: object) -> str:
        """Return the text with a member added at the object's end, in the layout of the others."""
        if not self.members:
            return self._with_only(key, value)
        indent = _indent(self.text, self.members[0].start)
        shown = f"{json.dumps(key)}: {_dump_value(self.text, value, indent=indent)}"
        whitespace = " " if indent is None else _line_end(self.text) + indent
        at = self.members[-1].end
        comma = self._comma(at)
        comments_after = at if comma is None else comma + 1
        # A comment after the last member stays on its line.
        place = comments_after + len(_trailing_comment(self.text[comments_after:]))
        between = ("," if comma is None else "") + self.text[at:place]
        # If the list ends with a trailing comma, add one after the new member.
        last = "" if comma is None else ","
        return self.text[:at] + between + whitespace + shown + last + self.text[place:]

    def without(self, member: JsonMember) -> str:
        """Return the text without a member and its comma."""
        at = self.members.index(member)
        if len(self.members) == 1:
            start, end = self.start + 1, self.end - 1
        elif at == 0:
            start, end = member.start, self.members[1].start
        else:
            start, end = self.members[at - 1].end, member.end
        around = self.text[start : member.start] + self.text[member.end : end]
        if around.replace(",", "").strip():
            return self._without_member(member)
        return self.text[:start] + self.text[end:]

    def _with_only(self, key: str, value: object) -> str:
        """Return the text with a first member, after existing comments."""
        line_end = _line_end(self.text)
        outer = _indent(self.text, self.start)
        indent = None if outer is None else outer + indent_unit(self.text)
        inside = f"{json.dumps(key)}: {_dump_value(self.text, value, indent=indent)}"
        if indent is not None:
            inside = line_end + indent + inside + line_end + (outer or "")
        comments = self.text[self.start + 1 : self.end - 1].rstrip()
        return f"{self.text[: self.start]}{{{comments}{inside}}}{self.text[self.end :]}"

    def _without_member(self, member: JsonMember) -> str:
        """Remove the member and one comma, the following one if there is one."""
        comma = self._comma(member.end)
        at = self.members.index(member)
        if comma is None and at:
            comma = self._comma(self.members[at - 1].end)
        start = len(self.text[: member.start].rstrip(" \t\r\n"))
        if comma is None:
            return self.text[:start] + self.text[member.end :]
        cuts = sorted([(start, member.end), (comma, comma + 1)])
        (first, first_end), (second, second_end) = cuts
        return self.text[:first] + self.text[first_end:second] + self.text[second_end:]

    def _comma(self, at: int) -> int | None:
        """Find the comma after the member that ends here, also a trailing one."""
        end = _skip_space(self.strip_comments, at)
        if self.strip_comments[end] == ",":
            return end
        between = range(at, end)
        last = (n for n in between if self.text[n] == "," and self.strip_comments[n] == _LAST_COMMA)
        return next(last, None)


def read_object(text: str, at: int = 0) -> JsonObject:
    """Parse the object that begins at or after `at`; `strip_comments(text)` must be valid JSON.

    Raises:
        ValueError: there is no object.

    """
    json_text = strip_comments(text)
    start = _skip_space(json_text, at)
    if json_text[start : start + 1] != "{":
        raise ValueError("Not an object.")
    members: list[JsonMember] = []
    position = _skip_space(json_text, start + 1)
    while json_text[position] != "}":
        key, key_end = _value(json_text, position)
        value_start = _skip_space(json_text, _skip_space(json_text, key_end) + 1)
        value, end = _value(json_text, value_start)
        members.append(
            JsonMember(key=str(key), value=value, start=position, value_start=value_start, end=end)
        )
        after = _skip_space(json_text, end)
        position = _skip_space(json_text, after + 1) if json_text[after] == "," else after
    end = position + 1
    return JsonObject(
        text=text, strip_comments=json_text, start=start, end=end, members=tuple(members)
    )


def indent_unit(text: str) -> str:
    """Guess the indentation unit from the first member of the outermost object."""
    json_text = strip_comments(text)
    inside = _SPACE.match(json_text, json_text.index("{") + 1)
    whitespace = inside.group() if inside else ""
    return (
        whitespace.rpartition("\n")[2]
        if "\n" in whitespace and not whitespace.endswith("\n")
        else "  "
    )


def _blanked(match: re.Match[str]) -> str:
    newlines = match.group()
    return (
        newlines if newlines.startswith('"') else _NOT_SPACE.sub(" ", newlines).replace("\t", " ")
    )


def _trailing_comment(rest: str) -> str:
    """Return the rest of a line if it is a comment."""
    line = rest.partition("\n")[0].rstrip("\r")
    return line if line.lstrip().startswith("//") else ""


def _value(text: str, at: int) -> tuple[object, int]:
    return _DECODER.raw_decode(text, at)


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _indent(text: str, at: int) -> str | None:
    """Return the indentation of the line at a position; None if the text has one line."""
    if "\n" not in text.strip():
        return "" if text.strip() in {"{}", "{ }"} else None
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _dump_value(text: str, value: object, *, indent: str | None) -> str:
    if indent is None:
        return json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, ensure_ascii=False, indent=indent_unit(text)).split("\n")
    return (_line_end(text) + indent).join(lines)
