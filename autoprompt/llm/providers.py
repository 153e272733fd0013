"""Providers that speak the OpenAI protocol, by their names in workflows. Keys are <NAME>_API_KEY."""

from __future__ import annotations

# Name -> base URL.
PROVIDERS = {
    "openai": "https://api.openai.com/v1",
    "deepseek": "https://api.deepseek.com/v1",
    "groq": "https://api.groq.com/openai/v1",
    "mistralai": "https://api.mistral.ai/v1",
    "moonshot": "https://api.moonshot.cn/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "siliconflow": "https://api.siliconflow.cn/v1",
    "tongyi": "https://dashscope.aliyuncs.com/compatible-mode/v1",
    "ollama": "http://127.0.0.1:11434/v1",
}
KEYLESS = ("ollama",)


def key_variable(provider: str) -> str:
    """Return the variable that holds the provider's key: `mistralai` -> `MISTRALAI_API_KEY`."""
    return f"{variable_stem(provider)}_API_KEY"


def address_variable(provider: str) -> str:
    """Return the variable that holds another address for the provider: `MISTRALAI_BASE_URL`."""
    return f"{variable_stem(provider)}_BASE_URL"


def variable_stem(provider: str) -> str:
    """Return how the provider's variables begin."""
    return provider.upper().replace("-", "_")
