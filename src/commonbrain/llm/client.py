"""A language model asked over HTTP for JSON: Ollama, or whatever offers OpenAI's API."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from commonbrain.embeddings.endpoint import OLLAMA_URL, OPENAI_URL, joined
from commonbrain.model.errors import InvalidInputError
from commonbrain.text.tokens import estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from commonbrain.embeddings.endpoint import Endpoint, RetryPolicy
    from commonbrain.embeddings.options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model said, and what that cost in tokens by its own count or else by ours."""

    content: str
    tokens_in: int | None = None
    tokens_out: int | None = None


class _Message(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)

    content: str


class _Choice(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)

    message: _Message


class _OllamaReply(_Choice):
    prompt_eval_count: int | None = None
    eval_count: int | None = None

    def told(self) -> Reply:
        """Give what it says in the words of both families."""
        return Reply(
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

    choices: Annotated[list[_Choice], Field(min_length=1)]
    usage: _Usage | None = None

    def told(self) -> Reply:
        """Give what it says in the words of both families."""
        usage = self.usage or _Usage()
        return Reply(
            content=self.choices[0].message.content,
            tokens_in=usage.prompt_tokens,
            tokens_out=usage.completion_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatFamily:
    """How one sort of endpoint is reached, asked and read."""

    name: str
    url: str
    """Where it is unless settings say otherwise."""
    path: str
    bounded: Callable[[int], Mapping[str, object]]
    """The part of a request that bounds the reply, in tokens, and asks for JSON."""
    read: Callable[[bytes], Reply]
    """Reads a reply; pydantic's error if there are no words in it."""


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
    url=OLLAMA_URL,
    path="/api/chat",
    bounded=_ollama_bounds,
    read=lambda reply: _OllamaReply.model_validate_json(reply).told(),
)
OPENAI_CHAT: Final = ChatFamily(
    name="openai",
    url=OPENAI_URL,
    path="/chat/completions",
    bounded=_openai_bounds,
    read=lambda reply: _OpenAiReply.model_validate_json(reply).told(),
)


class ChatClient:
    """Asks one model of one endpoint; nothing is sent before the first question."""

    def __init__(
        self,
        family: ChatFamily,
        options: Options,
        *,
        serves: str,
        patience: RetryPolicy | None = None,
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
        self._patience = patience
        self._serves = serves
        self._url = joined(options.url or family.url, family.path, settings=self.settings)
        self._opening = Lock()
        self._endpoint: Endpoint | None = None

    @property
    def called(self) -> str:
        """How errors name the endpoint."""
        return self._open().called

    def ask(self, task: str, text: str) -> Reply:
        """Set a task and give it a text.

        Raises:
            UnavailableError: the endpoint did not answer, with the code of what it serves.
            ValidationError: it answered, and there are no words in that.

        """
        asked = [{"role": "system", "content": task}, {"role": "user", "content": text}]
        bounds = self._family.bounded(self._options.tokens_max)
        body = {"model": self._model, "messages": asked, **bounds}
        return self._family.read(self._open().post(body))

    def cost(self, task: str, text: str, *, reply: Reply | None) -> tuple[int, int]:
        """Give the tokens that went in and came out, by the model's count where it gives one."""
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
                # The HTTP client takes a sixth of a second to load, and few ask a model.
                from commonbrain.embeddings.endpoint import PATIENCE, SERVICES, Endpoint  # noqa: PLC0415

                self._endpoint = Endpoint(
                    self._url,
                    family=self._family.name,
                    unknown_model_hint=f"Does it serve {self._model}? See {self.settings}_MODEL.",
                    options=self._options,
                    patience=self._patience or PATIENCE,
                    serves=SERVICES[self._serves],
                )
            return self._endpoint
