"""The tool of triage.yaml. It drafts a ticket and opens none, so that a search may call it for every row."""

from autoprompt.workflow import tool


@tool
def draft_ticket(line: str, subject: str, order: str = "", item: str = "") -> str:
    """One line for the desk: who takes it, which order, what about."""
    words = [line, f"order {order}" if order else "no order", item or "no item", subject.strip().rstrip(".")]
    return " | ".join(words)
