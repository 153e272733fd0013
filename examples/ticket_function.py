"""An async function on the OpenAI SDK: two calls at once, and one that decides from both."""

import asyncio
import os

from openai import AsyncOpenAI

client = AsyncOpenAI()
MODEL = os.environ.get("EXAMPLE_MODEL", "gpt-4.1-nano")


async def ask(system: str, user: str) -> str:
    turns = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    answer = await client.chat.completions.create(model=MODEL, messages=turns)  # type: ignore[arg-type]
    return answer.choices[0].message.content or ""


async def route(text: str) -> str:
    topic, mood = await asyncio.gather(
        ask("Name the topic of the ticket in a few words.", text),
        ask("Is the customer calm or angry?", text),
    )
    about = f"Topic: {topic}\nMood: {mood}\nTicket: {text}"
    return await ask("Route the ticket to shipping, billing or support.", about)
