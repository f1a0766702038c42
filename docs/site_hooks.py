"""What a page of the site says otherwise than the file in the repository: links that leave docs/ name the file."""

from __future__ import annotations

import posixpath
import re
from typing import Any

OUTSIDE = re.compile(r"(?<!!)\[([^\]]*)\]\(((?:\.\./)+[^)\s]*)\)")


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    def plain(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), link[2].partition("#")[0]))
        return f"{link[1]} (`{target[3:]}` in the repository)" if target.startswith("../") else link[0]

    return OUTSIDE.sub(plain, markdown)
