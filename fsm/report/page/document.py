"""The HTML document: its data, the script that shows it, the style, and a policy that forbids everything else."""

import base64
import hashlib
import json
from html import escape
from importlib.resources import files

from fsm.errors import visible
from fsm.report.json_report import Json


def document(title: str, data: Json) -> str:
    """Return the document that shows *data*, ending in a newline."""
    room = files("fsm.report.page")
    script = room.joinpath("page.js").read_text(encoding="utf-8")
    style = room.joinpath("page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'"
    unseen = "This page needs JavaScript, which it has in itself; nothing is loaded."
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{allowed}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(visible(title))}</title>",
            f"<style>\n{style}</style>",
            "</head>",
            "<body>",
            f'<main id="page"><noscript>{unseen}</noscript></main>',
            f'<script type="application/json" id="data">{embedded(data)}</script>',
            f"<script>{script}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def embedded(data: Json) -> str:
    r"""Return *data* as JSON without ``<``, so that no text in it can end the script element.

    >>> embedded("</script>\u2028")
    '"\\u003c/script>\\u2028"'
    """
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
