"""The reference transport: the same requests through langchain-openai's `ChatOpenAI`."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from autoprompt.errors import EndpointError, ModelError
from autoprompt.llm.client import Completion, Options
from autoprompt.llm.transport.address import environment_faults, proxy_note, shown_url
from autoprompt.llm.transport.failures import (
    SYSTEM,
    BrokenAnswerError,
    TimedOutError,
    UnreachableError,
    from_answer,
    from_status,
    redact,
)
from autoprompt.llm.transport.http import http_client
from autoprompt.llm.transport.wire import Constrain, Parameters, needs_plain_turns, turn
from autoprompt.records import Message

if TYPE_CHECKING:
    import openai


class LangChainTransport:
    """One request, one answer or one error, like `HttpTransport`; imports langchain (2-4 s) when made."""

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str = "",
        *,
        constrain: Constrain = "off",
        timeout_s: float = 120.0,
        trust_env: bool = True,
    ) -> None:
        from langchain_openai import ChatOpenAI
        from pydantic import SecretStr

        self.parameters = Parameters(constrain, f"{shown_url(base_url)} ({model})")
        self._model = model
        self._base_url = base_url
        self._api_key = api_key
        self._own_http = None if trust_env else http_client("", timeout_s=timeout_s, trust_env=False)
        # A proxy of the environment, OPENAI_PROXY included, and a client of one's own exclude each other.
        direct: dict[str, Any] = {} if trust_env else {"http_client": self._own_http, "openai_proxy": None}
        parts = urlsplit(base_url)  # the OpenAI client takes a query apart from the address
        # The OpenAI client insists on a key; an endpoint without keys does not look at it.
        with environment_faults():
            self._chat = ChatOpenAI(
                model=model,
                base_url=parts._replace(query="").geturl(),
                default_query=dict(parse_qsl(parts.query)) or None,
                api_key=SecretStr(api_key or "none"),
                max_retries=0,
                timeout=timeout_s,
                use_responses_api=False,
                **direct,
            )

    @property
    def name(self) -> str:
        return self._model

    def complete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        import openai

        parameters = self.parameters.of(options)
        spoken = self.parameters.turns(messages, options)
        sent = parameters | ({SYSTEM: True} if needs_plain_turns(spoken) else {})
        turns = [turn(message) for message in spoken]
        begun = time.perf_counter()
        try:
            # As extra body, parameters go out under the names that we give them, as over plain HTTP.
            patience: dict[str, Any] = {} if options.timeout_s is None else {"timeout": options.timeout_s}
            answer = self._chat.invoke(turns, extra_body=parameters, **patience)
        except openai.OpenAIError as error:
            raise self._translated(error, sent) from error
        except (TypeError, AttributeError, LookupError, ValueError) as error:
            # What langchain-openai raises where the answer is not a chat completion, with the error in it.
            if error.args and isinstance(error.args[0], dict):
                told_error = {"error": error.args[0]}
                failure = from_answer(told_error, {}, url=self._base_url, api_key=self._api_key, sent=sent)
                if failure is not None:
                    raise failure from error
            raise BrokenAnswerError(
                f"{shown_url(self._base_url)}: the answer is not a chat completion "
                f"({redact(str(error), self._base_url, self._api_key)})"
            ) from error
        told: dict[str, Any] = answer.response_metadata
        asked = [
            {"id": call["id"], "function": {"name": call["name"], "arguments": json.dumps(call["args"])}}
            for call in answer.tool_calls
        ]
        choice = {
            "message": {
                "content": answer.content,
                "refusal": answer.additional_kwargs.get("refusal"),
                "tool_calls": asked,
            },
            "finish_reason": told.get("finish_reason"),
            "logprobs": told.get("logprobs"),
        }
        data = {"choices": [choice], "usage": told.get("token_usage"), "model": told.get("model_name")}
        return self.parameters.read(data, messages, options, time.perf_counter() - begun, parameters)

    def close(self) -> None:
        """Without a client of our own there is nothing to close: langchain shares one within the process."""
        if self._own_http is not None:
            self._own_http.close()

    def _translated(self, error: openai.OpenAIError, sent: dict[str, Any]) -> ModelError:
        import openai

        if isinstance(error, openai.APIStatusError):
            return from_status(
                error.status_code,
                error.response.headers,
                error.response.text,
                url=self._base_url,
                api_key=self._api_key,
                sent=sent,
            )
        url, said = shown_url(self._base_url), redact(_causes(error), self._base_url, self._api_key)
        if isinstance(error, openai.APIConnectionError):
            if any(name in said for name in ("ConnectError", "ConnectTimeout", "ProxyError")):
                note = proxy_note(self._base_url) if self._own_http is None else ""
                return UnreachableError(f"{url} cannot be reached ({said}){note}")
            if isinstance(error, openai.APITimeoutError):
                return TimedOutError(f"{url}: no answer in time ({said})")
            return EndpointError(f"{url}: the connection broke off ({said})")
        return BrokenAnswerError(f"{url}: {said}")


def _causes(error: BaseException) -> str:
    """Return the error and what it came from.

    By name, as the OpenAI client has changed its HTTP library before.
    """
    chain = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    return " < ".join(f"{type(link).__name__}: {link}" for link in chain)
