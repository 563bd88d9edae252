"""Holds request bodies against the request types of the official SDKs, with nothing beside them allowed.

    python sdk_types.py BODY.json...

A body's name begins with its wire, or with a dialect of one. Each body must be accepted, and then, to show that this
means something, a field that nobody knows is planted into each of its objects in turn, and each number and switch is
turned into text: every one of these must be refused.
"""

import copy
import json
import pathlib
import sys

from anthropic.types.message_create_params import MessageCreateParamsStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter
from pydantic_core import SchemaValidator, ValidationError

TYPES = {
    "openai-chat": CompletionCreateParamsStreaming,
    "deepseek": CompletionCreateParamsStreaming,
    "openai-responses": ResponseCreateParamsStreaming,
    "anthropic": MessageCreateParamsStreaming,
}

# Where a golden body speaks a provider's own words: paths, `*` for any index. They are taken out, and nothing else
# passes.
OWN_WORDS = {
    "deepseek.step1.json": ["thinking", "messages.*.reasoning_content"],
    "deepseek.step2.json": ["thinking", "messages.*.reasoning_content"],
    # Mistral's: its seed has another name, and its `any` is what others call `required`.
    "openai-chat@2.frozen.json": ["random_seed", "tool_choice"],
}


def said_in_parts(body) -> int:
    """Answers without an id, as parts: OpenAI's server takes them, its SDK's types know them as strings only. They are
    turned into strings; says how many there were. Nothing else about them is let pass."""
    count = 0
    for item in body["input"] if isinstance(body.get("input"), list) else []:
        parts = item.get("content")
        if item.get("role") != "assistant" or "id" in item or not isinstance(parts, list):
            continue
        if all(set(part) == {"type", "text"} and part["type"] == "output_text" for part in parts):
            item["content"] = "".join(part["text"] for part in parts)
            count += 1
    return count


# Objects whose fields are anybody's: JSON Schema, and arguments of calls.
FREE = {"parameters", "input_schema", "schema", "input"}


def strict(schema):
    """The same schema, but objects take no further fields, lists are looked into at once, and an object of the SDK's
    answers, which allow any field, is no substitute for one of its requests."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if isinstance(schema, tuple):
        return tuple(strict(part) for part in schema)
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if kind == "model":
        refused = {"type": "is-instance", "cls": schema["cls"]}
        return refused | ({"ref": schema["ref"]} if "ref" in schema else {})
    schema = {key: strict(part) for key, part in schema.items()}
    if kind == "typed-dict":
        schema["extra_behavior"] = "forbid"
    if kind == "generator":
        schema["type"] = "list"
    return schema


def validator(params) -> SchemaValidator:
    return SchemaValidator(strict(TypeAdapter(params).core_schema))


def refusal(validator: SchemaValidator, body) -> ValidationError | None:
    try:
        validator.validate_json(json.dumps(body), strict=True)
        return None
    except ValidationError as error:
        return error


def complaints(error: ValidationError) -> list[str]:
    """A few of the reasons. The deepest are about the members of unions that came closest."""
    lines = sorted(error.errors(include_url=False), key=lambda line: -len(line["loc"]))
    # Pydantic names the whole union on the way to each of its members.
    place = lambda line: ".".join(str(part) for part in line["loc"] if "[" not in str(part))
    return [f"{place(line)}: {line['msg']}" for line in lines[:8]]


def take_out(body, path: list[str]) -> int:
    """Removes what is at this path, and says how often it was there."""
    head, rest = path[0], path[1:]
    if head == "*":
        return sum(take_out(part, rest) for part in body)
    if not isinstance(body, dict) or head not in body:
        return 0
    if rest:
        return take_out(body[head], rest)
    del body[head]
    return 1


def spoiled(body, where=()):
    """The body with one thing wrong in it, once for each thing, and where it is."""
    if isinstance(body, dict):
        yield (*where, "planted"), body | {"planted": 1}
        parts = [(key, part) for key, part in body.items() if key not in FREE or isinstance(part, list)]
    elif isinstance(body, list):
        parts = list(enumerate(body))
    else:
        if isinstance(body, (bool, int, float)):
            yield where, str(body)
        return
    for key, part in parts:
        for place, wrong in spoiled(part, (*where, key)):
            whole = copy.copy(body)
            whole[key] = wrong
            yield place, whole


def main() -> int:
    validators = {name: validator(params) for name, params in TYPES.items()}
    failed = 0
    for path in map(pathlib.Path, sys.argv[1:]):
        wire = next((name for name in TYPES if path.name.startswith(name)), None)
        if wire is None:
            print(f"error: {path}: its name begins with none of {', '.join(TYPES)}")
            return 1
        body = json.loads(path.read_text())
        own = OWN_WORDS.get(path.name, [])
        for name in own:
            if not take_out(body, name.split(".")):
                failed += 1
                print(f"error: {path} has no {name}, which is listed for it")
        parts = said_in_parts(body)
        error = refusal(validators[wire], body)
        if error:
            failed += 1
            print(f"error: {path} is refused:")
            for line in complaints(error):
                print(f"    {line}")
            continue
        count = 0
        for place, wrong in spoiled(body):
            count += 1
            if not refusal(validators[wire], wrong):
                failed += 1
                print(f"error: {path}: wrong at {'.'.join(map(str, place))}, and accepted")
        beside = f", beside {', '.join(own)}" if own else ""
        beside += f", {parts} answers in parts taken as strings" if parts else ""
        print(f"{path}: accepted{beside}; each of {count} faults in it refused")
    return 1 if failed else 0


sys.exit(main())
