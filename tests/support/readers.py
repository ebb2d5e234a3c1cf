"""Parse pictures in text form, such as Mermaid, with the programs that render them."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from real_parts import package, program

if TYPE_CHECKING:
    from pathlib import Path

_READ = """\
// It cleans texts with the means of a browser, which are not here; what is tested is the grammar.
for (const name of ["addHook", "removeHook", "sanitize"]) Function.prototype[name] ??= (text) => text;
const { default: mermaid } = await import(process.argv[2]);
const found = [];
for await (const line of (await import("node:readline")).createInterface({ input: process.stdin })) {
  const text = JSON.parse(line);
  await mermaid.parse(text);
  const diagram = await mermaid.mermaidAPI.getDiagramFromText(text);
  if (!diagram.db.getStates) {
    const participants = [...diagram.db.getActors().values()].map(({ description }) => description);
    found.push({ participants, messages: diagram.db.getMessages().map(({ message }) => message) });
    continue;
  }
  const states = [...diagram.db.getStates()].map(([id, { descriptions, classes }]) => ({ id, descriptions, classes }));
  found.push({ states, arrows: diagram.db.getRelations() });
}
console.log(JSON.stringify(found));
"""


def read_by_mermaid(texts: list[str]) -> list[Any]:
    module = package("mermaid") / "dist" / "mermaid.esm.min.mjs"
    ran = subprocess.run(
        [program("node"), "--input-type=module", "--eval", _READ, "-", str(module)],
        input="".join(f"{json.dumps(text)}\n" for text in texts),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    found: list[Any] = json.loads(ran.stdout)
    return found


def participants_by_mermaid(text: str) -> list[str]:
    return [str(each) for each in read_by_mermaid([text])[0]["participants"]]


def read_by_plantuml(folder: Path, texts: list[str]) -> None:
    paths = [folder / f"{number}.puml" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    ran = subprocess.run(
        [program("plantuml"), "-charset", "UTF-8", "-checkonly", *map(str, paths)],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
