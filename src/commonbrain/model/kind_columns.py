"""The columns of the kinds, as the fields of their detail classes declare them."""

from types import NoneType
from typing import Any, get_args, get_origin

from commonbrain.model.kinds import KINDS, Kind
from commonbrain.model.values import dataclass, fields, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class KindColumn:
    """A column of one or several kinds, as its declaration says; see `_column`."""

    name: str
    kinds: tuple[Kind, ...]
    value_type: type[Any]
    """Of its values: a class of the standard library or an enumeration."""
    default: object
    purpose: str
    for_agents: str | None
    is_long: bool
    is_agent: bool


def columns_of(kind: Kind) -> tuple[KindColumn, ...]:
    """Return the columns that only this kind has, in the order of their declaration."""
    return tuple(
        KindColumn(
            name=one.name,
            kinds=(kind,),
            value_type=_type_of(one.type),
            default=one.default,
            purpose=one.metadata.get("purpose", ""),
            for_agents=one.metadata.get("for_agents"),
            is_long=one.metadata.get("is_long", False),
            is_agent=one.metadata.get("is_agent", False),
        )
        for one in fields(KINDS[kind].detail)
    )


def _type_of(annotation: Any) -> type[Any]:  # noqa: ANN401 a class, a generic class or a union with None
    """Return the class of a column's values: of `Mapping[str, object] | None`, `Mapping`."""
    classes = [one for one in get_args(annotation) if one is not NoneType]
    is_union = NoneType in get_args(annotation)
    plain = classes[0] if is_union else annotation
    return get_origin(plain) or plain


def settable_columns() -> tuple[KindColumn, ...]:
    """Return the columns that `remember` takes, each once with all kinds that have it."""
    columns: dict[str, KindColumn] = {}
    for one in (column for kind in Kind for column in columns_of(kind) if column.purpose):
        known = columns.get(one.name)
        columns[one.name] = replace(known, kinds=(*known.kinds, *one.kinds)) if known else one
    return tuple(columns.values())
