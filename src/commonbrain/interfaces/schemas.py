"""JSON schemas as lean as they can be: agents pay for every word of them."""

from typing import Any, Final

from pydantic import BaseModel

_NULL: Final = {"type": "null"}


def lean_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Give a request's schema without titles, nulls and defaults that say nothing.

    A field that may be null may be left out, which says the same in fewer words and is read by
    clients that know no unions.
    """
    schema = model.model_json_schema()
    properties = {name: _lean(given) for name, given in schema.get("properties", {}).items()}
    required = schema.get("required", [])
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _lean(field: dict[str, Any]) -> dict[str, Any]:
    choices = [choice for choice in field.get("anyOf", []) if choice != _NULL]
    if len(choices) == 1:
        field = {**choices[0], **{key: field[key] for key in field if key != "anyOf"}}
    silent = {"title", "maxLength"}
    if not field.get("default"):
        silent.add("default")
    return {key: value for key, value in field.items() if key not in silent}
