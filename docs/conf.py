"""The site: the Markdown of this folder, and an API reference from the docstrings.

`make docs` builds it into out/site. The pages stay plain Markdown that a code host shows as well, so
what only the site needs is made here: the navigation, from the lists of index.md; links to files
outside this folder; and docstrings as Sphinx wants them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evenflow import __version__

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent

project = "evenflow"
author = "the evenflow authors"
version = release = __version__
copyright = author

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
root_doc = "index"
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"evenflow {version}"
html_show_copyright = False
html_show_sourcelink = False

myst_heading_anchors = 4
myst_links_external_new_tab = False
suppress_warnings = ["misc.highlighting_failure"]

default_role = "literal"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
python_maximum_signature_line_length = 88

# Pages of the site in place of files outside this folder.
_SITE = {"../README.md": "index.md", "../CHANGELOG.md": "changelog.rst"}

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^(```|~~~).*?^\1$", re.DOTALL | re.MULTILINE)
_FENCE_NAME = re.compile(r"^```python [\w-]+$", re.MULTILINE)
_LEAD = re.compile(r"^(Guarantee|Paper): ")
_CODE = re.compile(r"(?<!`)`([^`]+)`(\w?)")
_EXAMPLE = re.compile(r"^Example( \(.*\))?:$")


def adapt_page(app: Any, docname: str, source: list[str]) -> None:
    """What Sphinx reads in place of a page: navigation and links that work on the site."""
    path = Path(app.env.doc2path(docname))
    if path.suffix != ".md":
        return
    text = _FENCE_NAME.sub("```python", source[0])
    text = _outside_fences(text, lambda part: _LINK.sub(lambda link: _on_site(link, path), part))
    if docname == root_doc:
        text += "\n".join(_toctrees(source[0]))
    elif docname == "decisions/README":
        text += _toctree("", [link for link in _LINK.findall(source[0]) if link[1][0].isdigit()])
    source[0] = text


def _outside_fences(text: str, change: Any) -> str:
    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [change(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(text[end:])])


def _on_site(link: re.Match[str], page: Path) -> str:
    """A link that leaves this folder leads to the same content on the site, or downloads the file."""
    label, target = link.groups()
    file, hash_, anchor = target.partition("#")
    if not file or "://" in file:
        return link[0]
    place = (page.parent / file).resolve()
    if place.is_relative_to(DOCS):
        return link[0]
    if (elsewhere := _SITE.get(os.path.relpath(place, DOCS))) is not None:
        return f"[{label}]({os.path.relpath(DOCS / elsewhere, page.parent)}{hash_}{anchor})"
    if place.is_file():
        return f"{{download}}`{label.strip('`')} <{os.path.relpath(place, page.parent)}>`"
    return link[0]  # leads nowhere, which MyST reports


def _toctrees(text: str) -> Iterator[str]:
    """The navigation: a section for each heading of index.md, with the pages that it links to."""
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        caption, _, body = section.partition("\n")
        links = [(label, _SITE.get(file, file)) for label, file in _LINK.findall(body)]
        inside = [link for link in links if not link[1].startswith("..")]
        yield _toctree(caption, [link for link in inside if (DOCS / link[1]).is_file()])


def _toctree(caption: str, links: list[tuple[str, str]]) -> str:
    pages = "\n".join(f"{label.replace('`', '')} <{file}>" for label, file in links)
    named = f":caption: {caption}\n" if caption else ""
    return f"\n\n```{{toctree}}\n:hidden:\n{named}\n{pages}\n```\n"


def adapt_docstring(
    app: Any, what: str, name: str, described: Any, options: Any, lines: list[str]
) -> None:
    """Code as reStructuredText marks it, leads in bold, and examples without prompts as code."""
    lines[:] = _CODE.sub(_literal, "\n".join(lines)).split("\n")
    adapted: list[str] = []
    for i, line in enumerate(lines):
        following = next((text for text in lines[i + 1 :] if text.strip()), "")
        example = _EXAMPLE.match(line)
        if example and not following.lstrip().startswith(">>>"):
            adapted += [f"**Example**{example[1] or ''}::", ""]
        else:
            # A bar between two words would be a substitution.
            bare = line if line.startswith((" ", ">>>")) else line.replace("|", "\\|")
            adapted.append(_LEAD.sub(r"**\1:** ", bare))
    lines[:] = adapted


def _literal(code: re.Match[str]) -> str:
    # Code must end at the end of a word unless it says otherwise.
    return f"``{code[1]}``" + (f"\\ {code[2]}" if code[2] else "")


def setup(app: Any) -> None:
    app.connect("source-read", adapt_page)
    app.connect("autodoc-process-docstring", adapt_docstring, priority=400)  # before napoleon
