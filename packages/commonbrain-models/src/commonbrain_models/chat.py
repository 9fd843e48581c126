"""Language model client over HTTP: Ollama, or any server with OpenAI's API."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from commonbrain.embeddings.interface import ENDPOINTS
from commonbrain.model.errors import InvalidInputError
from commonbrain.text.tokens import estimate
from commonbrain_models.urls import append_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from commonbrain.embeddings.interface import Options
    from commonbrain_models.endpoint import Endpoint, RetryPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """A model's answer, and its cost in tokens by the model's count or ours."""

    content: str
    tokens_in: int | None = None
    tokens_out: int | None = None


class _ChatMessage(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)

    content: str


class _ChatChoice(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)

    message: _ChatMessage


class _OllamaChatReply(_ChatChoice):
    prompt_eval_count: int | None = None
    eval_count: int | None = None

    def to_reply(self) -> ChatReply:
        """Return the answer in the common form."""
        return ChatReply(
            content=self.message.content,
            tokens_in=self.prompt_eval_count,
            tokens_out=self.eval_count,
        )


class _Usage(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)

    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _OpenAiReply(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)

    choices: Annotated[list[_ChatChoice], Field(min_length=1)]
    usage: _Usage | None = None

    def to_reply(self) -> ChatReply:
        """Return the answer in the common form."""
        usage = self.usage or _Usage()
        return ChatReply(
            content=self.choices[0].message.content,
            tokens_in=usage.prompt_tokens,
            tokens_out=usage.completion_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatFamily:
    """URL, request format and response format of a kind of endpoint."""

    name: str
    url: str
    """Default URL."""
    path: str
    bounded: Callable[[int], Mapping[str, object]]
    """Request fields that limit the answer, in tokens, and require JSON."""
    read: Callable[[bytes], ChatReply]
    """Parses a response; raises pydantic's error if it holds no text."""


def _ollama_bounds(tokens_max: int) -> Mapping[str, object]:
    options = {"temperature": 0, "num_predict": tokens_max}
    return {"stream": False, "format": "json", "options": options}


def _openai_bounds(tokens_max: int) -> Mapping[str, object]:
    return {
        "temperature": 0,
        "max_tokens": tokens_max,
        "response_format": {"type": "json_object"},
    }


OLLAMA_CHAT: Final = ChatFamily(
    name="ollama",
    url=ENDPOINTS["ollama"],
    path="/api/chat",
    bounded=_ollama_bounds,
    read=lambda reply: _OllamaChatReply.model_validate_json(reply).to_reply(),
)
OPENAI_CHAT: Final = ChatFamily(
    name="openai",
    url=ENDPOINTS["openai"],
    path="/chat/completions",
    bounded=_openai_bounds,
    read=lambda reply: _OpenAiReply.model_validate_json(reply).to_reply(),
)


class ChatClient:
    """Calls one model of one endpoint; nothing is sent before the first request."""

    def __init__(
        self,
        family: ChatFamily,
        options: Options,
        *,
        serves: str,
        retry_policy: RetryPolicy | None = None,
    ) -> None:
        self.settings = f"COMMONBRAIN_{serves.upper()}"
        if options.model is None:
            raise InvalidInputError(
                f"The {serves} {family.name} needs a model.", hint=f"Set {self.settings}_MODEL."
            )
        self.name = f"{family.name}/{options.model}"
        self._family = family
        self._model = options.model
        self._options = options
        self._retry_policy = retry_policy
        self._serves = serves
        self._url = append_path(options.url or family.url, family.path, settings=self.settings)
        self._opening = Lock()
        self._endpoint: Endpoint | None = None

    @property
    def called(self) -> str:
        """Name of the endpoint in errors."""
        return self._open().called

    def ask(self, task: str, text: str) -> ChatReply:
        """Send a system prompt and a text.

        Raises:
            UnavailableError: The endpoint did not answer; the code names its use.
            ValidationError: The response holds no text.

        """
        messages = [{"role": "system", "content": task}, {"role": "user", "content": text}]
        bounds = self._family.bounded(self._options.tokens_max)
        body = {"model": self._model, "messages": messages, **bounds}
        return self._family.read(self._open().post(body))

    def cost(self, task: str, text: str, *, reply: ChatReply | None) -> tuple[int, int]:
        """Return input and output tokens, by the model's count if it reports one."""
        content = reply.content if reply else ""
        tokens_in = reply.tokens_in if reply else None
        tokens_out = reply.tokens_out if reply else None
        return (
            estimate(task) + estimate(text) if tokens_in is None else tokens_in,
            estimate(content) if tokens_out is None else tokens_out,
        )

    def _open(self) -> Endpoint:
        with self._opening:
            if self._endpoint is None:
                # The HTTP client takes a sixth of a second to import, and few callers use a model.
                from commonbrain_models.endpoint import RETRY_POLICY, SERVICES, Endpoint  # noqa: PLC0415

                self._endpoint = Endpoint(
                    self._url,
                    family=self._family.name,
                    unknown_model_hint=f"Does it serve {self._model}? See {self.settings}_MODEL.",
                    options=self._options,
                    retry_policy=self._retry_policy or RETRY_POLICY,
                    serves=SERVICES[self._serves],
                )
            return self._endpoint
