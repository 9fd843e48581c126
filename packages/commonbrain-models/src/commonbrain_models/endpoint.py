"""HTTP endpoints of models: deadlines, retries, and a pause while they are down."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from itertools import count
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from weakref import finalize

import httpx2
from circuitbreaker import (  # pyright: ignore[reportMissingTypeStubs] it has none
    STATE_HALF_OPEN,
    CircuitBreaker,
)
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from commonbrain.hosts import is_local_host
from commonbrain.model.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Generator

    from commonbrain.embeddings.interface import Options


_ANSWERS: Final = 16
"""Recent response times that tell whether an endpoint is slow."""
_TIMES: Final = 2
"""An endpoint that takes this many times the longest of them hangs."""


class WaiterGroup:
    """The callers that wait for one endpoint; safe to use from several threads.

    Without it, an endpoint that hangs would occupy every thread of a server within a second. For a
    slow endpoint, its recent response times tell how long to wait, up to a limit.
    """

    def __init__(self, at_most: int, *, silence_s: float, longest_s: float) -> None:
        self._at_most = at_most
        self._silence_s = silence_s
        self._longest_s = longest_s
        self._took_s: deque[float] = deque(maxlen=_ANSWERS)
        self._lock = Lock()
        self._numbers = count()
        self._waiting: dict[int, float] = {}
        self._heard_at = float("-inf")

    @contextmanager
    def joined(self, *, is_trial: bool) -> Generator[bool]:
        """Join the waiting callers.

        Yields whether to call at all. Only one caller makes a trial.
        """
        with self._lock:
            hangs = bool(self._waiting) if is_trial else self._hangs
            number = next(self._numbers)
            if not hangs:
                self._waiting[number] = monotonic()
        try:
            yield not hangs
        finally:
            with self._lock:
                self._waiting.pop(number, None)

    def heard(self, *, after_s: float) -> None:
        """Record that the endpoint answered, with whatever status, and how long it took."""
        with self._lock:
            self._heard_at = monotonic()
            self._took_s.append(after_s)

    @property
    def _hangs(self) -> bool:
        if len(self._waiting) < self._at_most:
            return False
        since = max(self._heard_at, min(self._waiting.values()))
        slow_s = _TIMES * max(self._took_s, default=0.0)
        return monotonic() - since >= min(max(self._silence_s, slow_s), self._longest_s)


RETRY_AFTER_S_MAX: Final = 5.0
"""A longer requested pause is not waited for."""
REPLY_BYTES_MAX: Final = 64 * 1024 * 1024
"""64 vectors of 4,096 numbers are 6 MB as JSON; a much longer reply is invalid."""
_CONNECT_S_MAX: Final = 5.0
_PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed later."""
_OF_REQUEST: Final = frozenset({400, 413, 422})
"""Statuses that reject the texts sent and say nothing about later ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How an endpoint that fails is retried and paused."""

    pause_s: float = 0.1
    """Delay before the first retry, tripled for each further one."""
    failures_max: int = 3
    """Consecutive failures after which it is paused."""
    rest_s: float = 30.0
    silence_s: float = 3.0
    """If `failures_max` callers have all waited this long, or twice the slowest recent response
    time if that is longer, no further caller joins."""


RETRY_POLICY: Final = RetryPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """The purpose of an endpoint, for errors and settings."""

    name: str
    settings: str
    """Prefix of the environment variables of its URL and timeouts."""
    is_quick: bool = True
    """Whether several seconds of silence mean that it hangs; generating text may take longer."""

    @property
    def code(self) -> str:
        """The code of its errors."""
        return f"{self.name}_down"


EMBEDDING: Final = EndpointSettings(name="embedder", settings="COMMONBRAIN_EMBEDDER")
EXTRACTING: Final = EndpointSettings(
    name="extractor", settings="COMMONBRAIN_EXTRACTOR", is_quick=False
)
REFLECTING: Final = EndpointSettings(
    name="reflector", settings="COMMONBRAIN_REFLECTOR", is_quick=False
)
SERVICES: Final[Mapping[str, EndpointSettings]] = {
    one.name: one for one in (EMBEDDING, EXTRACTING, REFLECTING)
}
"""By purpose."""


class AttemptFailed(UnavailableError):
    """A failed attempt: whether another may succeed, and after how many seconds."""

    def __init__(
        self,
        message: str,
        *,
        hint: str,
        code: str,
        is_passing: bool = False,
        is_of_request: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.is_passing = is_passing and (retry_after_s or 0) <= RETRY_AFTER_S_MAX
        self.is_of_request = is_of_request
        self.retry_after_s = retry_after_s


class Endpoint:
    """Posts JSON to one URL; threads share its connections."""

    def __init__(
        self,
        url: str,
        *,
        family: str,
        unknown_model_hint: str,
        options: Options,
        retry_policy: RetryPolicy = RETRY_POLICY,
        serves: EndpointSettings = EMBEDDING,
    ) -> None:
        self._serves = serves
        self.called = f"The {serves.name} {family} at {urlsplit(url).netloc}"
        """Its name in errors, without the full URL, which may contain secrets."""
        self._url = url
        self._unknown_model_hint = unknown_model_hint
        self._timeout_s = options.timeout_s
        self._attempts = options.retries + 1
        self._pause_s = retry_policy.pause_s
        self._breaker = CircuitBreaker(
            failure_threshold=retry_policy.failures_max,
            recovery_timeout=retry_policy.rest_s,  # pyright: ignore[reportArgumentType] it only adds it
            expected_exception=_blames_endpoint,
        )
        self._waiters = WaiterGroup(
            retry_policy.failures_max,
            silence_s=retry_policy.silence_s if serves.is_quick else float("inf"),
            longest_s=options.timeout_s if serves.is_quick else float("inf"),
        )
        key = options.key.get_secret_value() if options.key else ""
        self._client = httpx2.Client(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx2.Timeout(
                options.timeout_s, connect=min(_CONNECT_S_MAX, options.timeout_s)
            ),
            # A proxy for the internet cannot reach this machine.
            trust_env=not is_local_host(urlsplit(url).hostname or ""),
        )
        # Embedders are not closed; their connections are released with them.
        finalize(self, self._client.close)

    def post(self, body: Mapping[str, object]) -> bytes:
        """Send a body and return the reply's.

        Raises:
            UnavailableError: `embedder_down`, `extractor_down` or `reflector_down`; it did not
                answer in time, returned an error, or is paused.

        """
        if self._breaker.opened:
            raise UnavailableError(
                f"{self.called} failed {self._breaker.failure_count} times in a row and is left "
                f"alone for {self._breaker.open_remaining} s.",
                code=self._serves.code,
                hint="It is tried again after that. `brain doctor` says what is wrong with it.",
            )
        retrying = Retrying(
            stop=stop_after_attempt(self._attempts),
            wait=self._pause,
            retry=retry_if_exception(_is_passing),
            reraise=True,
        )
        is_trial = self._breaker.state == STATE_HALF_OPEN
        with self._waiters.joined(is_trial=is_trial) as makes_sense:
            if not makes_sense:
                raise self._silent(is_trial=is_trial)
            with self._breaker:
                return retrying(self._once, body)

    def _once(self, body: Mapping[str, object]) -> bytes:
        asked_at = monotonic()
        try:
            with self._client.stream("POST", self._url, json=body) as response:
                self._waiters.heard(after_s=monotonic() - asked_at)
                if not response.is_success:
                    raise self._refusal(response)
                return self._whole(response)
        except httpx2.ConnectTimeout as error:
            raise self._unreachable(error) from error
        except httpx2.TimeoutException as error:
            # A caller that waited so long does not retry.
            raise self._late() from error
        except httpx2.RequestError as error:
            raise self._unreachable(error) from error

    def _whole(self, response: httpx2.Response) -> bytes:
        """Read a reply to its end; the client's timeout applies to each chunk only."""
        ends_at = monotonic() + self._timeout_s
        reply = bytearray()
        for piece in response.iter_bytes():
            reply += piece
            if monotonic() > ends_at:
                raise self._late()
            if len(reply) > REPLY_BYTES_MAX:
                raise AttemptFailed(
                    f"{self.called} sent more than {REPLY_BYTES_MAX:,} bytes.",
                    hint=f"Check {self._serves.settings}_URL.",
                    code=self._serves.code,
                )
        return bytes(reply)

    def _pause(self, attempt: RetryCallState) -> float:
        error = attempt.outcome.exception() if attempt.outcome else None
        requested_s = error.retry_after_s if isinstance(error, AttemptFailed) else None
        if requested_s is not None:
            return requested_s
        jitter = wait_random(max=self._pause_s)
        backing_off = wait_exponential(multiplier=self._pause_s, exp_base=3) + jitter
        return min(backing_off(attempt), RETRY_AFTER_S_MAX)

    def _silent(self, *, is_trial: bool) -> UnavailableError:
        why = "is being tried by another call" if is_trial else "does not answer those who wait"
        return UnavailableError(
            f"{self.called} {why}.",
            code=self._serves.code,
            hint="It is asked again when it answers. `brain doctor` says what is wrong with it.",
        )

    def _late(self) -> AttemptFailed:
        return AttemptFailed(
            f"{self.called} did not answer within {self._timeout_s:g} s.",
            hint=f"{self._serves.settings}_TIMEOUT_S says how long to wait.",
            code=self._serves.code,
        )

    def _unreachable(self, error: httpx2.RequestError) -> AttemptFailed:
        return AttemptFailed(
            f"{self.called} cannot be reached ({type(error).__name__}).",
            hint=f"Is it running? {self._serves.settings}_URL says where it is looked for.",
            code=self._serves.code,
            is_passing=True,
        )

    def _refusal(self, response: httpx2.Response) -> AttemptFailed:
        """Return the error for a status without the reply's text, which may repeat key or input."""
        status, settings = response.status_code, self._serves.settings
        hints = {
            401: f"Set {settings}_API_KEY to a key that it accepts.",
            403: f"Set {settings}_API_KEY to a key that may use this model.",
            404: self._unknown_model_hint,
            429: "It allows no more requests for now.",
        }
        return AttemptFailed(
            f"{self.called} answered with HTTP status {status}.",
            hint=hints.get(status, f"Check it, {settings}_URL and _MODEL."),
            code=self._serves.code,
            is_passing=status in _PASSING,
            is_of_request=status in _OF_REQUEST,
            retry_after_s=_retry_after_s(response.headers),
        )


def _retry_after_s(headers: httpx2.Headers) -> float | None:
    """Parse Retry-After (RFC 9110, 10.2.3): seconds, or a time by the server's clock."""
    value = headers.get("Retry-After", "").strip()
    if value.isdecimal():
        return float(value)
    try:
        until = parsedate_to_datetime(value)
        return max(0.0, (until - parsedate_to_datetime(headers.get("Date", ""))).total_seconds())
    except (TypeError, ValueError):
        return None


def _is_passing(error: BaseException) -> bool:
    return isinstance(error, AttemptFailed) and error.is_passing


def _blames_endpoint(_kind: type[BaseException], error: BaseException) -> bool:
    return isinstance(error, AttemptFailed) and not error.is_of_request
