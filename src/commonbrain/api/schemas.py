"""Compact JSON schemas, since agents pay for every token."""

from typing import Any, Final

from commonbrain.api.agent_arguments import DETAILS
from commonbrain.api.operation import Request, arguments_for_agents

_NULL: Final = {"type": "null"}


def compact_schema(request: type[Request], *, is_whole: bool = False) -> dict[str, Any]:
    """Return a request's schema for agents: without titles, nulls, formats and empty defaults.

    A nullable field becomes an optional one, which is shorter and works with clients that do not
    support unions. Objects in a list have no schema of their own. Arguments that are rarely given
    are only named, under `details`. The whole schema has all fields, also those that are hidden
    from agents.
    """
    schema = _flat(request.model_json_schema())
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    names = list(properties) if is_whole else arguments_for_agents(request)
    shown = names if is_whole else [name for name in names if name in (request.SHOWN or names)]
    rest = [name for name in names if name not in shown]
    details = {DETAILS: {"type": "object", "description": _name_all(rest, properties)}}
    return {
        "type": "object",
        "properties": {
            **{name: _compact_field(properties[name]) for name in shown},
            **(details if rest else {}),
        },
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _name_all(names: list[str], properties: dict[str, Any]) -> str:
    """Return arguments in one text, each with its description if it needs one."""
    described = ((name, _description(properties[name])) for name in names)
    return ", ".join(f"{name} ({text})" if text else name for name, text in described)


def _description(field: dict[str, Any]) -> str | None:
    return field.get("for_agents", field.get("description"))


def _flat(schema: dict[str, Any]) -> dict[str, Any]:
    """Merge the objects of a union of verbs into one with all their fields."""
    if "oneOf" not in schema:
        return schema
    verbs = schema["oneOf"]
    properties = {name: field for verb in verbs for name, field in verb["properties"].items()}
    shared = set[str].intersection(*(set(verb["required"]) for verb in verbs))
    ops = [verb["properties"]["op"]["const"] for verb in verbs]
    properties["op"] = {"type": "string", "enum": ops}
    return {
        "properties": properties,
        "required": [name for name in verbs[0]["required"] if name in shared],
    }


def outline_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the names and types of a reply's fields, without what is inside its objects.

    A client checks replies against it; REST and the reference have the whole schema.
    """
    shared = schema.get("$defs", {})
    fields = schema.get("properties", {}).items()
    nullable = {name for name, field in fields if _NULL in field.get("anyOf", [])}
    return {
        "type": "object",
        "properties": {name: _type_only(field, shared) for name, field in fields},
        "required": [name for name in schema.get("required", []) if name not in nullable],
    }


def _type_only(field: dict[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    choices = [choice for choice in field.get("anyOf", []) if choice != _NULL] or [field]
    if len(choices) > 1:
        return {}
    only = choices[0]
    only = shared.get(only.get("$ref", "").rpartition("/")[2], only)
    return {"type": only["type"]} if "type" in only else {}


def _compact_field(field: dict[str, Any]) -> dict[str, Any]:
    choices = [choice for choice in field.get("anyOf", []) if choice != _NULL]
    if len(choices) == 1:
        field = {**choices[0], **{key: field[key] for key in field if key != "anyOf"}}
    brief = _description(field)
    shown = field.keys() & {"type", "enum", "const", "items"}
    if field.get("items", {}).keys() & {"$ref"}:
        field = {**field, "items": {"type": "object"}}
    if field.get("default") and "for_agents" not in field:
        shown.add("default")
    return {
        **{key: field[key] for key in field if key in shown},
        **({"description": brief} if brief else {}),
    }
