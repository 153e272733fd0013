"""`http-request`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, Field, field_validator

from autoprompt.workflow.engine.http_call import known_method
from autoprompt.workflow.file.fields import NodeData, Record, Text


class HttpAuthorizationConfig(Record):
    type: Literal["basic", "bearer", "custom"] = "bearer"
    api_key: Text = ""
    header: Text = ""


class HttpAuthorization(Record):
    type: Literal["no-auth", "api-key"] = "no-auth"
    config: HttpAuthorizationConfig | None = None


class HttpBodyField(Record):
    key: Text = ""
    type: Text = "text"
    value: Text = ""


class HttpBody(Record):
    type: Literal["none", "form-data", "x-www-form-urlencoded", "raw-text", "json", "binary"] = "none"
    data: tuple[HttpBodyField, ...] = ()

    @field_validator("data", mode="before")
    @classmethod
    def _of_text(cls, value: Any) -> Any:
        if not value:
            return ()
        return [{"value": value}] if isinstance(value, str) else value


class HttpTimeout(Record):
    """Seconds; 0 or nothing stands for the default.

    connect: of each connection. read: of the whole answer with its redirects.
    """

    connect: float | None = Field(
        default=None, ge=0, validation_alias=AliasChoices("connect", "max_connect_timeout")
    )
    read: float | None = Field(default=None, ge=0, validation_alias=AliasChoices("read", "max_read_timeout"))


class HttpRequestData(NodeData):
    """headers, params: lines of `name: value`, as the editor writes them, or a mapping."""

    method: Annotated[str, AfterValidator(known_method)] = "get"
    url: str
    authorization: HttpAuthorization = HttpAuthorization()
    headers: Text = ""
    params: Text = ""
    body: HttpBody | None = None
    timeout: HttpTimeout | None = None
    ssl_verify: bool | None = None

    @field_validator("headers", "params", mode="before")
    @classmethod
    def _lines(cls, value: Any) -> Any:
        if isinstance(value, Mapping):
            return "\n".join(f"{name}: {text}" for name, text in value.items())
        return value

    @field_validator("body", mode="before")
    @classmethod
    def _json_of_mapping(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and "type" not in value:
            return None if not value else {"type": "json", "data": value.get("data", "")}
        return value
