"""`brain hook status`: what hooks would do here, and who says so."""

from collections.abc import Mapping
from pathlib import Path

from commonbrain.api.project_folder import CONFIG_FILE, FolderConfig, find_folder_config
from commonbrain.hooks.config import capture_mode, is_disabled, limit_s
from commonbrain.hooks.table import HOOKS, LIMITS_S
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.escaping import inert


def render_status(environment: Mapping[str, str], path: Path) -> str:
    """Say whether hooks are on in a folder, for which project, with which limits."""
    try:
        folder = find_folder_config(path)
    except InvalidInputError as error:
        return inert(f"hooks: off, {error}")
    clients: dict[str, list[str]] = {}
    for client, event in HOOKS:
        clients.setdefault(client, []).append(event)
    limits = (f"{action.name.lower()} {limit_s(action, environment):g} s" for action in LIMITS_S)
    lines = [
        f"hooks: {_switch(environment, folder)}",
        f"project: {folder.project or 'none'}",
        f"capture: {capture_mode(folder, environment)}",
        f"limits: {', '.join(limits)}",
        *(f"{client}: {', '.join(events)}" for client, events in clients.items()),
    ]
    return inert("\n".join(lines))


def _switch(environment: Mapping[str, str], folder: FolderConfig) -> str:
    if is_disabled(environment):
        return "off, by COMMONBRAIN_HOOKS"
    if not folder.has_hooks:
        return f"off, by {folder.source}"
    return f"on; hooks = false in {CONFIG_FILE} or COMMONBRAIN_HOOKS=off switches them off"
