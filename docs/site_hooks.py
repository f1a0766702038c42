"""What differs between a page of the site and its file in the repository.

Links that leave docs/ name the file instead. The error texts of a rule are tags of its page, because the search counts
every word of a pasted text alone: it puts a word of a tag before one of a title, and that before one of a text.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

OUTSIDE = re.compile(r"(?<!!)\[([^\]]*)\]\(((?:\.\./)+[^)\s]*)\)")
TEXTS = re.compile(r"^## You see\n+```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    def plain(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), link[2].partition("#")[0]))
        return f"{link[1]} (`{target[3:]}` in the repository)" if target.startswith("../") else link[0]

    texts = TEXTS.search(markdown)
    if texts:
        page.meta["tags"] = [line for line in texts[1].splitlines() if line.strip()]
    return OUTSIDE.sub(plain, markdown)
