"""``diagrams/`` contains exactly the output of ``fsm draw``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fsm.diagrams.draw.dot import digest, dot
from fsm.diagrams.draw.markdown_table import markdown
from fsm.diagrams.draw.picture import picture
from fsm.diagrams.draw.text_pictures import mermaid, plantuml
from fsm.language.library import load, names

DIAGRAMS = Path(__file__).resolve().parent.parent.parent / "diagrams"
AGAIN = "run: fsm draw -o diagrams/ -f svg -f dot -f mermaid -f plantuml -f markdown"


@pytest.mark.parametrize("name", names())
def test_is_up_to_date(name: str) -> None:
    """The text files equal the output, and images contain the digest of the text from which they were drawn."""
    machine = load(name)
    drawing = picture(machine)
    texts = {"dot": dot(drawing), "mmd": mermaid(drawing), "puml": plantuml(drawing), "md": markdown(machine)}
    for suffix, text in texts.items():
        assert (DIAGRAMS / f"{name}.{suffix}").read_text(encoding="utf-8") == text, AGAIN
    made = re.findall(r'data-source="(.*?)"', (DIAGRAMS / f"{name}.svg").read_text(encoding="utf-8"))
    assert made == [digest(texts["dot"])], AGAIN


def test_there_is_nothing_else() -> None:
    suffixes = ("svg", "dot", "mmd", "puml", "md")

    assert {path.name for path in DIAGRAMS.iterdir()} == {f"{name}.{suffix}" for name in names() for suffix in suffixes}
