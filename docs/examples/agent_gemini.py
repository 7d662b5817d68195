"""An agent with the client library of Google. GOOGLE_GEMINI_BASE_URL says where its model is."""

from __future__ import annotations

from typing import Any

from google import genai
from google.genai import types
from shop import MODEL, QUESTIONS, SYSTEM, TOOLS, run_tool

client = genai.Client()
declarations: Any = [
    {
        "name": tool["name"],
        "description": tool["description"],
        "parameters_json_schema": tool["parameters"],
    }
    for tool in TOOLS
]
config = types.GenerateContentConfig(
    system_instruction=SYSTEM, tools=[types.Tool(function_declarations=declarations)]
)
contents: list[Any] = []

for question in QUESTIONS:
    contents.append(types.Content(role="user", parts=[types.Part(text=question)]))
    while True:
        response = client.models.generate_content(model=MODEL, contents=contents, config=config)
        contents.append(response.candidates[0].content)
        if not response.function_calls:
            break
        results = [
            types.Part.from_function_response(
                name=call.name, response={"result": run_tool(call.name, dict(call.args))}
            )
            for call in response.function_calls
        ]
        contents.append(types.Content(role="user", parts=results))
    print(response.text)
