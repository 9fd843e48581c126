"""What the agents do, for Locust: `locust -f` runs this file, which `benchmarks.load` starts.

The load is open: each agent sends requests at times that are drawn beforehand as a Poisson
process, whatever became of earlier ones. An agent that waits past the time of its next request
sends it at once, and the delay is counted into the time of its answer, so that a server that stalls
cannot hide it (coordinated omission).
"""

from __future__ import annotations

# pyright: reportUnknownMemberType=false
# Locust tells half of its types.
import json
import os
import random
import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import Any, Final

import gevent
from locust import FastHttpUser, events, task
from locust.env import Environment

from benchmarks.load.plan import Plan

PLAN: Final = Plan.read(Path(os.environ["COMMONBRAIN_LOAD_PLAN"]))
_NUMBERS: Final = count()
_RECONNECT_S: Final = 1.0
"""When an agent without an answer connects again."""
LEDGER: Final = Path(PLAN.ledger).open("w", encoding="utf-8", buffering=1)  # noqa: SIM115 to the end


class Agent(FastHttpUser):
    """One agent with a key of its own, on its schedule."""

    host = PLAN.url
    network_timeout = PLAN.timeout_s
    connection_timeout = PLAN.timeout_s

    def on_start(self) -> None:
        """Take the next key, and draw the time of the first request."""
        self.number = next(_NUMBERS)
        self.random_source = random.Random(self.number)
        self.headers = {
            "Authorization": f"Bearer {PLAN.keys[self.number % len(PLAN.keys)]}",
            "Commonbrain-Session": f"load-{self.number}",
        }
        self.due = time.time() + self._gap()
        self.note_number = 0
        # Locust would ask at once, and all agents together.
        gevent.sleep(self.wait_time())

    def wait_time(self) -> float:
        """Return how long it is until this agent's next request; a late one is sent at once."""
        return max(0.0, self.due - time.time())

    @task
    def ask(self) -> None:
        """Recall mostly, and remember now and then."""
        due, self.due = self.due, self.due + self._gap()
        if self.random_source.random() < PLAN.writes:
            self._post("remember", self._memory(), due=due)
        else:
            body: dict[str, Any] = {"query": self.random_source.choice(PLAN.questions)}
            if PLAN.deadline_ms is not None:
                body["deadline_ms"] = PLAN.deadline_ms
            self._post("recall", body, due=due)

    def _gap(self) -> float:
        return self.random_source.expovariate(PLAN.rate / PLAN.agents)

    def _memory(self) -> dict[str, Any]:
        self.note_number += 1
        words = self.random_source.sample(PLAN.words, 20)
        text = f"Agent {self.number} noted {' '.join(words)} as {PLAN.mark} {self.note_number}."
        return {"text": text, "kind": "fact", "project": f"project-{self.number % 20}"}

    def _post(self, what: str, body: dict[str, Any], *, due: float) -> None:
        sent_at = time.time()
        late_ms = max(0.0, sent_at - due) * 1000
        headers = dict(self.headers)
        if PLAN.retries and what == "remember":
            headers["Idempotency-Key"] = f"{PLAN.mark}-{self.number}-{self.note_number}"
        post = partial(
            self.client.post, f"/v1/{what}", json=body, headers=headers, catch_response=True
        )
        with post(name=what) as answer:
            answer.request_meta["response_time"] += late_ms
            if answer.status_code != HTTPStatus.OK:
                answer.failure(f"{answer.status_code}: {(answer.text or '')[:200]}")
        line = self._line(what, answer, sent_at=sent_at)
        last = self._retry(answer, partial(post, name=f"{what} again"))
        line |= {"last_status": last.status_code, "ids": _stored(_read(last.text or ""))}
        LEDGER.write(f"{json.dumps(line)}\n")

    def _retry(self, first: Any, post: Callable[[], Any]) -> Any:  # noqa: ANN401 Locust's
        """Send a call again as the server says, or if it is gone; return the last answer."""
        last = first
        for _ in range(PLAN.retries):
            headers: dict[str, str] = last.headers or {}
            is_final = last.status_code and "Retry-After" not in headers
            if is_final:
                break
            gevent.sleep(float(headers.get("Retry-After", _RECONNECT_S)))
            with post() as last:
                if last.status_code != HTTPStatus.OK:
                    last.failure(f"{last.status_code}: {(last.text or '')[:200]}")
        return last

    def _line(self, what: str, answer: Any, *, sent_at: float) -> dict[str, Any]:  # noqa: ANN401
        """Describe the answer to the first try of a call, and what went without a vector."""
        reply = _read(answer.text or "")
        items: list[dict[str, Any]] = reply.get("items", [])
        return {
            "at": time.time(),
            "call": what,
            "agent": self.number,
            "said": self.note_number if what == "remember" else None,
            "status": answer.status_code,
            "code": reply.get("code", ""),
            "is_retryable": "Retry-After" in (answer.headers or {}),
            "ms": round((time.time() - sent_at) * 1000),
            "is_behind": bool(reply.get("degraded"))
            or any(item.get("embedding_pending") for item in items),
        }


def _stored(reply: dict[str, Any]) -> list[str]:
    return [item["id"] for item in reply.get("items", []) if item.get("status") == "stored"]


def _read(text: str) -> dict[str, Any]:
    """Read an answer; what comes from no server of ours, or from none at all, says nothing."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return {}


@events.test_start.add_listener
def _begin(environment: Environment, **_: object) -> None:
    """Count from when the agents have connected; who then waits for an earlier answer counts."""
    gevent.spawn_later(PLAN.uncounted_s, environment.stats.reset_all)


@events.quitting.add_listener
def _write_report(environment: Environment, **_: object) -> None:
    """Write what Locust counted where the benchmark reads it."""
    calls = {
        name: {
            "count": entry.num_requests,
            "failures": entry.num_failures,
            "rate": entry.total_rps,
            "p50_ms": entry.get_response_time_percentile(0.5),
            "p95_ms": entry.get_response_time_percentile(0.95),
            "p99_ms": entry.get_response_time_percentile(0.99),
            "longest_ms": entry.max_response_time,
        }
        for name in ("recall", "remember")
        for entry in [environment.stats.get(name, "POST")]
    }
    errors = [
        f"{one.name}: {one.error} ({one.occurrences}x)" for one in environment.stats.errors.values()
    ]
    Path(PLAN.report).write_text(json.dumps({"calls": calls, "errors": errors}), "utf-8")
