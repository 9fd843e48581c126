"""Whether what a server acknowledged is there: in the database, and through the API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import httpx2
import psycopg
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from commonbrain.model import ids
from commonbrain.model.limits import IDS_PER_GET_MAX

CATCH_UP_S: Final = 120
"""How long workers may take to embed what was stored without a vector."""
_READERS: Final = 4
_TIMEOUT_S: Final = 30
_LOST: Final = (
    "SELECT count(*) FROM unnest(%s::bigint[]) AS given (id) "
    "WHERE NOT EXISTS (SELECT 1 FROM memories m WHERE m.id = given.id)"
)
_WITHOUT_VECTOR: Final = (
    "SELECT count(*) FROM memories m WHERE m.id = ANY(%s) AND NOT EXISTS "
    "(SELECT 1 FROM vectors v WHERE v.tenant_id = m.tenant_id AND v.memory_id = m.id)"
)
_REPEATED: Final = (
    "SELECT count(*) - count(DISTINCT body) FROM facts WHERE body LIKE '%% as ' || %s || ' %%'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A memory that a server acknowledged."""

    id: str
    agent: int
    note_number: int
    """The how manieth of its agent."""


def count_lost(url: str, acknowledged: Sequence[str]) -> int:
    """Count the memories that the database does not have."""
    with closing(psycopg.connect(url)) as connection:
        [(lost,)] = connection.execute(_LOST, [_numbers(acknowledged)]).fetchall()
        return lost


def count_without_vector(url: str, acknowledged: Sequence[str]) -> int:
    """Count the memories without a vector, once workers have caught up or given up."""
    given = [_numbers(acknowledged)]
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        catching_up = Retrying(
            retry=retry_if_result(bool),
            wait=wait_fixed(1),
            stop=stop_after_delay(CATCH_UP_S),
            retry_error_callback=lambda state: state.outcome and state.outcome.result(),
        )
        return catching_up(lambda: connection.execute(_WITHOUT_VECTOR, given).fetchall()[0][0])


def count_repeated(url: str, mark: str) -> int:
    """Count the memories of a run that were written more than once."""
    with closing(psycopg.connect(url)) as connection:
        [(repeated,)] = connection.execute(_REPEATED, [mark]).fetchall()
        return repeated


def count_unreadable(url: str, keys: Sequence[str], writes: Sequence[Write], *, mark: str) -> int:
    """Read every memory back as the agent that wrote it; count those whose text is not there."""
    by_agent: dict[int, list[Write]] = {}
    for write in writes:
        by_agent.setdefault(write.agent, []).append(write)
    with (
        httpx2.Client(base_url=url, timeout=_TIMEOUT_S) as http,
        ThreadPoolExecutor(_READERS) as threads,
    ):
        read = threads.map(
            partial(_count_unreadable, http, mark=mark),
            (keys[agent % len(keys)] for agent in by_agent),
            by_agent.values(),
        )
        return sum(read)


def _count_unreadable(http: httpx2.Client, key: str, writes: Sequence[Write], *, mark: str) -> int:
    headers = {"Authorization": f"Bearer {key}"}
    unreadable = 0
    for start in range(0, len(writes), IDS_PER_GET_MAX):
        some = writes[start : start + IDS_PER_GET_MAX]
        body = {"id": [write.id for write in some]}
        reply = http.post("/v1/get", json=body, headers=headers)
        shown = dict(_bodies(reply.json())) if reply.is_success else {}
        unreadable += sum(
            not shown.get(write.id, "").endswith(f" as {mark} {write.note_number}.")
            for write in some
        )
    return unreadable


def _bodies(reply: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for shown in (reply, *reply.get("more", ())):
        yield shown["id"], shown.get("body") or ""


def _numbers(acknowledged: Sequence[str]) -> list[int]:
    return [ids.parse(ids.MEMORY, one) for one in acknowledged]
