"""The optimization loop: a LangGraph `StateGraph` over `AutoPromptState`."""
