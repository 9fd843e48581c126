"""Compact JSON schemas, since agents pay for every token."""

from typing import Any, Final, cast

from pydantic import BaseModel

_NULL: Final = {"type": "null"}
_PROSE: Final = frozenset({"title", "description", "default"})


def compact_schema(model: type[BaseModel], *, shows_all: bool = False) -> dict[str, Any]:
    """Return a request's schema without titles, nulls and empty defaults.

    Fields hidden from agents are left out unless `shows_all` is set. A nullable field becomes an
    optional one, which is shorter and works with clients that do not support unions.
    """
    schema = _flat(model.model_json_schema())
    fields = schema.get("properties", {}).items()
    nested = schema.get("$defs", {})
    properties = {
        name: _compact_field(_compact_nested(input_fields, nested, shows_all=shows_all))
        for name, input_fields in fields
        if shows_all or not input_fields.get("unseen")
    }
    required = schema.get("required", [])
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _compact_nested(
    field: dict[str, Any], nested: dict[str, Any], *, shows_all: bool
) -> dict[str, Any]:
    """Reduce a nested object to its description, unless `shows_all` is set."""
    name = field.get("$ref", "").rpartition("/")[2]
    if nested.get(name, {}).get("type") != "object":
        return field
    properties = {key: _compact_field(one) for key, one in nested[name]["properties"].items()}
    shown = {"properties": properties} if shows_all else {}
    return {"type": "object", "description": field.get("description", ""), **shown}


def _flat(schema: dict[str, Any]) -> dict[str, Any]:
    """Merge the objects of a union of verbs into one with all their fields."""
    if "oneOf" not in schema:
        return schema
    verbs = schema["oneOf"]
    properties = {name: field for verb in verbs for name, field in verb["properties"].items()}
    shared = set[str].intersection(*(set(verb["required"]) for verb in verbs))
    properties["op"] = {"enum": [verb["properties"]["op"]["const"] for verb in verbs]}
    return {
        "properties": properties,
        "required": [name for name in verbs[0]["required"] if name in shared],
    }


def compact_output_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a reply's schema without titles and descriptions; nullable fields are optional."""
    lean = {key: _compact_part(value) for key, value in schema.items() if key not in _PROSE}
    nullable = {
        name
        for name, field in schema.get("properties", {}).items()
        if _NULL in field.get("anyOf", [])
    }
    if "required" in lean:
        lean["required"] = [name for name in lean["required"] if name not in nullable]
    return lean


def _compact_part(value: Any) -> Any:  # noqa: ANN401 a schema holds anything
    return (
        compact_output_schema(cast("dict[str, Any]", value)) if isinstance(value, dict) else value
    )


def _compact_field(field: dict[str, Any]) -> dict[str, Any]:
    choices = [choice for choice in field.get("anyOf", []) if choice != _NULL]
    if len(choices) == 1:
        field = {**choices[0], **{key: field[key] for key in field if key != "anyOf"}}
    silent = {"title", "maxLength", "plain", "unseen"}
    if field.get("plain"):
        silent.add("description")
    if not field.get("default"):
        silent.add("default")
    return {key: value for key, value in field.items() if key not in silent}
