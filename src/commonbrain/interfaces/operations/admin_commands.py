"""The commands about agents and keys of a tenant."""

from typing import Final

from commonbrain.interfaces.operations.operation import Command

_AGENT: Final = frozenset({"agent"})
_KEY: Final = frozenset({"key"})

ADMIN_COMMANDS: Final = (
    Command(
        name="agent list",
        purpose="List who may call, with what role and trust.",
        preset={"op": "agents"},
        fields=frozenset(),
    ),
    Command(
        name="agent set",
        purpose="Make an agent, or change its role and trust.",
        preset={"op": "agent_set"},
        fields=_AGENT | {"role", "trust_default", "trust_ceiling"},
        positional=("agent",),
        required=_AGENT,
    ),
    Command(
        name="agent disable",
        purpose="Let an agent call no more; its keys and memories stay.",
        preset={"op": "agent_set", "disabled": True},
        fields=_AGENT,
        positional=("agent",),
        required=_AGENT,
        is_weighty=True,
    ),
    Command(
        name="agent enable",
        purpose="Let a disabled agent call again.",
        preset={"op": "agent_set", "disabled": False},
        fields=_AGENT,
        positional=("agent",),
        required=_AGENT,
    ),
    Command(
        name="key list",
        purpose="List keys, good or not, the newest first.",
        preset={"op": "keys"},
        fields=_AGENT,
    ),
    Command(
        name="key create",
        purpose="Make a key for an agent and show it, this once.",
        preset={"op": "key_create"},
        fields=_AGENT | {"role", "label", "scopes", "networks", "days"},
        positional=("agent",),
        required=_AGENT,
    ),
    Command(
        name="key rotate",
        purpose="Make a key like another one, which ends after some minutes.",
        preset={"op": "key_rotate"},
        fields=_KEY | {"minutes"},
        positional=("key",),
        required=_KEY,
    ),
    Command(
        name="key revoke",
        purpose="End a key at once.",
        preset={"op": "key_revoke"},
        fields=_KEY,
        positional=("key",),
        required=_KEY,
        is_weighty=True,
    ),
    Command(
        name="tenant usage",
        purpose="Show what the tenant uses of what it may.",
        preset={"op": "usage"},
        fields=frozenset(),
    ),
    Command(
        name="tenant refusals",
        purpose="List what was refused and governed of late, the newest first.",
        preset={"op": "refusals"},
        fields=frozenset({"limit"}),
    ),
)
