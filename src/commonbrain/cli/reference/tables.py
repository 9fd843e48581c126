"""Reference pages of kinds, settings, errors and limits."""

import ast
import inspect
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from commonbrain.api.errors import ERRORS
from commonbrain.config import ServerSettings, Settings
from commonbrain.model import limits
from commonbrain.model.kinds import ALIASES, KINDS


def table(heads: str, rows: Iterable[Iterable[object]]) -> str:
    """Render a Markdown table; bars separate the `heads`."""
    cells = [heads.split("|"), ["---"] * (heads.count("|") + 1), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in cells)


def code(names: Iterable[str]) -> str:
    """List names as code; "none" if there are none."""
    return ", ".join(f"`{name}`" for name in names) or "none"


def yes_or_no(is_so: bool) -> str:  # noqa: FBT001 it is the value shown
    """Return `yes` or `no`."""
    return "yes" if is_so else "no"


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")


_HOUR: Final = timedelta(hours=1)
_ON_DUPLICATE: Final = {
    "refuse": "refused",
    "warn": "stored with a warning",
    "recur": "stored",
    "keep": "stored",
}
_BOUNDS: Final = {
    "minimum": "from {}",
    "exclusiveMinimum": "above {}",
    "maximum": "to {}",
    "maxLength": "of at most {} characters",
}


def kinds_page() -> str:
    """Document every kind: lifecycle, columns and accepted names."""
    lifecycle = table(
        "kind|one statement only|a duplicate is|half-life|archived after|salience|pruned|columns",
        (
            (
                f"`{policy.kind}`",
                yes_or_no(policy.is_atomic),
                _ON_DUPLICATE[policy.on_duplicate],
                _span(policy.half_life),
                _span(policy.archived_after),
                policy.salience,
                yes_or_no(policy.is_pruned),
                code(policy.columns),
            )
            for policy in KINDS.values()
        ),
    )
    aliases = table(
        "name|kind", ((f"`{name}`", f"`{kind}`") for name, kind in sorted(ALIASES.items()))
    )
    return (
        f"# Kinds\n\n{lifecycle}\n\n"
        f"## Aliases\n\nAccepted as a kind; kept as the label.\n\n{aliases}"
    )


def settings_page() -> str:
    """Document every setting: environment variable, default and bounds."""
    return (
        f"# Settings\n\n{_settings(Settings)}\n\n"
        f"## Of the shared server\n\nOptions of `brain serve` go before them.\n\n"
        f"{_settings(ServerSettings)}"
    )


def _settings(model: type[BaseSettings]) -> str:
    prefix = model.model_config.get("env_prefix", "")
    schema = model.model_json_schema()["properties"]
    rows = (
        (f"`{prefix}{name.upper()}`", _default(field), _bounds(schema[name]), field.description)
        for name, field in model.model_fields.items()
    )
    return table("variable|default|allowed|what it does", rows)


def errors_page() -> str:
    """Document every error: default code, exit code, HTTP status and meaning."""
    rows = (
        (
            f"`{fault.error.__name__}`",
            f"`{fault.error.default_code}`",
            fault.exit_code,
            fault.http_status,
            _first_line(fault.error),
        )
        for fault in ERRORS
    )
    return f"# Errors\n\n{table('error|code|exit code|HTTP status|meaning', rows)}"


def limits_page() -> str:
    """Document every limit with the docstring below it."""
    rows = (
        (f"`{name}`", f"{getattr(limits, name):,}", meaning) for name, meaning in limit_meanings()
    )
    return f"# Limits\n\n{table('limit|value|meaning', rows)}"


def limit_meanings() -> list[tuple[str, str]]:
    """Return each limit's name and the docstring below it; empty without one."""
    body = ast.parse(inspect.getsource(limits)).body
    return [
        (statement.target.id, _docstring(below))
        for statement, below in zip(body, [*body[1:], None], strict=True)
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    ]


def _span(span: timedelta | None) -> str:
    if span is None:
        return "never"
    return f"{span.days} days" if span > timedelta(days=2) else f"{span / _HOUR:.0f} hours"


def _default(field: FieldInfo) -> str:
    # The default depends on the machine and its user; the page must not.
    if field.default_factory is not None:
        return "`brain.db` in the user's data folder"
    return "not set" if field.default is None else f"`{field.default}`"


def _bounds(schema: dict[str, Any]) -> str:
    """Describe the bounds of a setting, from its schema."""
    choices: list[dict[str, Any]] = schema.get("anyOf") or [{}]
    allowed = schema | choices[0]
    if "enum" in allowed:
        return code(allowed["enum"])
    constraints = (_BOUNDS[name].format(allowed[name]) for name in _BOUNDS if name in allowed)
    return " ".join([str(allowed.get("format") or allowed["type"]), *constraints])


def _first_line(of: type) -> str:
    return (inspect.getdoc(of) or "").partition("\n")[0]


def _docstring(statement: ast.stmt | None) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=str() as text)):
            return text
        case _:
            return ""
