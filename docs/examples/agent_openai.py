"""An agent with the client library of OpenAI. OPENAI_BASE_URL says where its model is."""

from __future__ import annotations

import json
from typing import Any

from openai import OpenAI
from shop import MODEL, QUESTIONS, SYSTEM, TOOLS, run_tool

client = OpenAI()
tools: Any = [{"type": "function", "function": tool} for tool in TOOLS]
messages: list[Any] = [{"role": "system", "content": SYSTEM}]

for question in QUESTIONS:
    messages.append({"role": "user", "content": question})
    while True:
        response = client.chat.completions.create(model=MODEL, messages=messages, tools=tools)
        message = response.choices[0].message
        messages.append(message)
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            result = run_tool(call.function.name, json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    print(message.content)
