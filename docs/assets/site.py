"""What the site adds to MkDocs.

Pages that lie outside of docs/; formulas as pictures, which need no script; what every command says of itself.
"""

from __future__ import annotations

import html
import io
import os
import re
import warnings
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from mkdocs.structure.files import File

from headrace.cli.main import main

with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # it opens its font in an older way
    import ziamath

ROOT = Path(__file__).parents[2]
OUTSIDE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "benchmarks/README.md": "benchmark_figures.md",
    "results/README.md": "recorded_runs.md",
}
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")

SIZE = 16  # of a letter, in the units of its picture, which is as large as the text around it
ziamath.config.svg2 = False  # every picture holds its own letters
ziamath.config.precision = 1
INLINE = re.compile(r'<span class="arithmatex">\\\((.+?)\\\)</span>', re.S)


def on_config(config: Any) -> Any:
    fence = {"name": "math", "class": "math", "format": _formula}
    config.mdx_configs["pymdownx.superfences"] = {"custom_fences": [fence]}
    return config


def on_page_content(content: str, **_: Any) -> str:
    return INLINE.sub(lambda found: _drawn(html.unescape(found[1]), inline=True), content)


def _formula(source: str, *_: Any, **__: Any) -> str:
    return f'<div class="formula">{_drawn(source, inline=False)}</div>'


def _drawn(source: str, inline: bool) -> str:
    """The formula in the colour and the size of the text around it, and as LaTeX for who cannot see it."""
    near = re.sub(r"\\nabla_(\\?\w+)", r"\\nabla_{\\!\\! \1}", source)  # this font sets the index of a nabla far away
    drawn = ziamath.Latex(near, size=1.1 * SIZE, color="currentColor", inline=inline)
    picture = drawn.svgxml()
    for side in ("width", "height"):
        picture.set(side, f"{float(picture.get(side)) / SIZE:.3f}em")
    picture.set("style", f"vertical-align: {drawn.getyofst() / SIZE:.3f}em")
    picture.set("role", "img")
    picture.set("aria-label", " ".join(source.split()))
    return ElementTree.tostring(picture, encoding="unicode")


def on_files(files: Any, config: Any) -> Any:
    for path, name in OUTSIDE.items():
        if files.get_file_from_path(name) is None:
            files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, files: Any, **_: Any) -> str:
    """Links are written as they hold in the repository. What is no page of the site keeps its text alone."""
    here = Path(page.file.abs_src_path)

    def placed(link: re.Match[str]) -> str:
        image, text, target, anchor = link.groups()
        path = (here.parent / target).resolve()
        if not path.is_relative_to(ROOT) or not path.exists():
            return link[0]  # MkDocs says what is wrong with it
        inside = path.relative_to(ROOT).as_posix()
        uri = OUTSIDE.get(inside, inside.removeprefix("docs/"))
        if files.get_file_from_path(uri) is None:
            return text
        return f"{image}[{text}]({os.path.relpath(uri, os.path.dirname(page.file.src_uri) or '.')}{anchor or ''})"

    return LINK.sub(placed, markdown) + (_commands() if page.file.src_uri == "reference/commands.md" else "")


def _commands() -> str:
    """What `--help` prints, of each command in its order."""
    os.environ["COLUMNS"] = "100"
    names = re.findall(r"^    ([a-z]+)\b", _printed("--help").partition("COMMAND\n")[2], re.M)
    return "".join(f"\n## {name}\n\n```text\n{_printed(name, '--help')}```\n" for name in names)


def _printed(*words: str) -> str:
    with redirect_stdout(io.StringIO()) as text, suppress(SystemExit):
        main(words)
    return text.getvalue()
