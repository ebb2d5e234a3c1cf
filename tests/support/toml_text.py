"""Write documents as TOML text."""

from __future__ import annotations

import datetime as dt
import json
from typing import TypeAlias

Value: TypeAlias = "str | int | float | bool | dt.date | list[Value] | dict[str, Value]"


def toml_text(document: dict[str, Value]) -> str:
    return "".join(f"{_string(key)} = {_value(value)}\n" for key, value in document.items())


def _value(value: Value) -> str:
    match value:
        case str():
            return _string(value)
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case dt.date():
            return value.isoformat()
        case list():
            return f"[{', '.join(map(_value, value))}]"
        case dict():
            return f"{{{', '.join(f'{_string(key)} = {_value(each)}' for key, each in value.items())}}}"


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
