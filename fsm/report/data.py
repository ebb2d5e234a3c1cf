"""Data that a domain's command returns, as text: a table of records, or the fields of one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass

from fsm.errors import visible


def data_text(data: object) -> str:
    """Return *data* as text: a mapping or dataclass as a line for each field, a sequence of them as a table.

    >>> print(data_text([{"job": "a", "state": "done"}, {"job": "b2", "state": "queued"}]), end="")
    job  state
    a    done
    b2   queued
    >>> print(data_text({"jobs": 2}), end="")
    jobs  2
    """
    if isinstance(data, Sequence) and not isinstance(data, str):
        records = [_record(each) for each in data]
        names = list(dict.fromkeys(name for named in records for name in named))
        return _table([names, *([each.get(name, "") for name in names] for each in records)]) if names else ""
    return _table([name, value] for name, value in _record(data).items())


def _record(data: object) -> dict[str, str]:
    if isinstance(data, Mapping):
        pairs = data.items()
    elif is_dataclass(data) and not isinstance(data, type):
        pairs = {field.name: getattr(data, field.name) for field in fields(data)}.items()
    else:
        pairs = {"": data}.items()
    return {str(name): visible(str(value)) for name, value in pairs}


def _table(rows: Iterable[Sequence[str]]) -> str:
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "".join(f"{line.rstrip()}\n" for line in lines)
