"""Numbers as people read them: the same in the page, in Markdown and in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from autoprompt.records import Usage
from autoprompt.stats import p_text
from autoprompt.text.names import counted

MINUS = "\N{MINUS SIGN}"
NONE = "–"  # where there is no value


def score(value: float | None, digits: int = 3) -> str:
    """`0.870`; a dash where there is none."""
    return NONE if value is None else f"{value:.{digits}f}"


def signed(value: float | None, digits: int = 3) -> str:
    """`+0.300`, `−0.020`, `0.000`."""
    if value is None:
        return NONE
    text = f"{abs(value):.{digits}f}"
    if not float(text):
        return text
    return f"{MINUS if value < 0 else '+'}{text}"


def interval(bounds: Sequence[float] | None, digits: int = 3) -> str:
    """`0.763 to 0.932`."""
    if bounds is None:
        return NONE
    low, high = (f"{MINUS if bound < 0 else ''}{abs(bound):.{digits}f}" for bound in bounds)
    return f"{low} to {high}"


def p_value(value: float | None) -> str:
    """`p = 0.00004`; a dash where there is none."""
    return NONE if value is None else p_text(value)


def p_number(value: float | None) -> str:
    """`0.00004`, `< 0.00001`: for a column that is called p."""
    return p_value(value).removeprefix("p ").removeprefix("= ")


def times(value: float | None) -> str:
    """`2.1×`."""
    return NONE if value is None else f"{value:.1f}×"


def count(value: float | None) -> str:
    """`158,895`."""
    return NONE if value is None else f"{round(value):,}"


def tokens(usage: Usage) -> str:
    """`110,688 tokens (92,160 from the provider's cache, 4,800 of reasoning)`."""
    parts = [
        f"{number:,} {what}"
        for number, what in (
            (usage.cached_tokens, "from the provider's cache"),
            (usage.cache_write_tokens, "written to it"),
            (usage.reasoning_tokens, "of reasoning"),
        )
        if number
    ]
    return f"{counted(usage.total_tokens, 'token')}" + (f" ({', '.join(parts)})" if parts else "")


def money(cost_usd: float | None) -> str:
    """`$1.50`, `$0.0042`; `unknown` where a price is not known."""
    if cost_usd is None:
        return "unknown"
    return f"${cost_usd:,.2f}" if cost_usd >= 0.1 or cost_usd == 0 else f"${cost_usd:.4f}"


def at_once(requests: int | None) -> str:
    """` with up to 38 requests at once`, what `concurrency: auto` settled on; nothing for a fixed number."""
    return "" if requests is None else f" with up to {counted(requests, 'request')} at once"


def duration(seconds: float | None) -> str:
    """`0:07`, `12:30`, `1:02:03`."""
    if seconds is None:
        return NONE
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def megabytes(count: float) -> str:
    """`358 kB`, `12 MB`, `1.12 GB`."""
    if count < 1e6:
        return f"{count / 1e3:.0f} kB"
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def ratio(value: float | None, base: float | None) -> float | None:
    """value / base; None where one is missing or zero."""
    return value / base if value and base else None
