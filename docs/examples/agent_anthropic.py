"""An agent with the client library of Anthropic, streamed. ANTHROPIC_BASE_URL says where its model is."""

from __future__ import annotations

from typing import Any

from anthropic import Anthropic
from shop import MODEL, QUESTIONS, SYSTEM, TOOLS, run_tool

client = Anthropic()
tools: Any = [
    {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
    for tool in TOOLS
]
messages: list[Any] = []

for question in QUESTIONS:
    messages.append({"role": "user", "content": question})
    while True:
        with client.messages.stream(
            model=MODEL, max_tokens=1_000, system=SYSTEM, messages=messages, tools=tools
        ) as stream:
            response = stream.get_final_message()
        messages.append({"role": "assistant", "content": response.content})
        calls = [block for block in response.content if block.type == "tool_use"]
        if not calls:
            break
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": run_tool(call.name, dict(call.input))}
            for call in calls
        ]
        messages.append({"role": "user", "content": results})
    print("".join(block.text for block in response.content if block.type == "text"))
