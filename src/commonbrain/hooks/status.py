"""`brain hook status`: what hooks would do here, and who says so."""

from collections.abc import Mapping
from pathlib import Path

from commonbrain.api.project_folder import FILE, Folder, folder_of
from commonbrain.hooks.config import capture_of, is_off, limit_s
from commonbrain.hooks.table import HOOKS, LIMITS_S
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.escaping import inert


def render_status(environment: Mapping[str, str], path: Path) -> str:
    """Say whether hooks are on in a folder, for which project, with which limits."""
    try:
        folder = folder_of(path)
    except InvalidInputError as error:
        return inert(f"hooks: off, {error}")
    clients: dict[str, list[str]] = {}
    for client, event in HOOKS:
        clients.setdefault(client, []).append(event)
    limits = (f"{deed.name.lower()} {limit_s(deed, environment):g} s" for deed in LIMITS_S)
    lines = [
        f"hooks: {_switch(environment, folder)}",
        f"project: {folder.project or 'none'}",
        f"capture: {capture_of(folder, environment)}",
        f"limits: {', '.join(limits)}",
        *(f"{client}: {', '.join(events)}" for client, events in clients.items()),
    ]
    return inert("\n".join(lines))


def _switch(environment: Mapping[str, str], folder: Folder) -> str:
    if is_off(environment):
        return "off, by COMMONBRAIN_HOOKS"
    if not folder.has_hooks:
        return f"off, by {folder.told_by}"
    return f"on; hooks = false in {FILE} or COMMONBRAIN_HOOKS=off switches them off"
