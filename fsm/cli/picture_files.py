"""Choose the files and formats of pictures."""

from collections.abc import Mapping
from pathlib import Path

import click

from fsm.errors import nearest


def formats(
    forms: tuple[str, ...], output: Path | None, suffixes: Mapping[str, str], *, pictures: int
) -> tuple[str, ...]:
    """Return the formats of *pictures* pictures: *forms* or, if it is empty, the formats that *output* implies."""
    if output is None:
        if pictures > 1 or len(forms) > 1:
            raise click.UsageError("several pictures need --output FOLDER")
        return forms or ("svg",)
    if _is_folder(output):
        return forms or tuple(suffixes)
    if pictures > 1 or len(forms) > 1:
        raise click.UsageError(f"'{output}' is one file: for several use --output {output.stem}/")
    known = {f".{suffix}": form for form, suffix in suffixes.items()}
    if not forms and output.suffix not in known:
        hint = nearest(output.suffix, known, of="suffixes")
        raise click.UsageError(f"'{output}' does not name a format: {hint}; or use --format")
    return forms or (known[output.suffix],)


def picture_file(output: Path | None, name: str, suffix: str) -> Path | None:
    """Return the file for the picture *name*: *output*, or one in it if it is a folder; ``None`` is standard output."""
    return output / f"{name}.{suffix}" if output is not None and _is_folder(output) else output


def _is_folder(output: Path) -> bool:
    return output.is_dir() or not output.suffix
