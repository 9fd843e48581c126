"""`brain hook status`: what hooks would do here, and who says so."""

from collections.abc import Mapping
from pathlib import Path

from commonbrain.domain.errors import Invalid
from commonbrain.domain.inert import inert
from commonbrain.interfaces.folder import FILE, Folder, folder_of
from commonbrain.interfaces.hooks.switches import capture_of, is_off, limit_s
from commonbrain.interfaces.hooks.table import HOOKS, LIMITS_S


def tell_status(environment: Mapping[str, str], path: Path) -> str:
    """Say whether hooks are on in a folder, for which project, with which limits."""
    try:
        folder = folder_of(path)
    except Invalid as error:
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
