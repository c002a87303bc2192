#!/usr/bin/env python3
"""Draws the picture of the README from the figures of the demo: `readme.py DEMO` after `sparsegp demo --out DEMO`.

There are four files: light and dark, each for wide screens and for phones.
"""

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
STYLE = HERE.parents[1] / "reports" / "src" / "style.css"
# The panels: the file of the demo, its title, and True for a map, whose colours stay on a dark page.
PANELS = [
    ("2-series", "CO2: ten years forecast, with the 95 % interval", False),
    ("5-function", "Tumours: the probability that one is malignant", True),
    ("8-dependence-disea", "Visits to a doctor by number of diseases", False),
    ("3-coverage", "CO2 by week: test rows inside the intervals", False),
]
# The size of a panel, whose figure stands below a title of TITLE units, and the distance between panels.
WIDTH, HEIGHT, TITLE, GAP = 960, 714, 56, 40
# The size of the text in the figures of the demo, and in the panels on a phone.
TEXT, PHONE_TEXT = 'font-size="24.9"', 'font-size="30"'


def dark_colours() -> dict[str, str]:
    """The colours of figures on a dark page, by attribute and colour on a light one, as the reports have them."""
    rules = re.findall(r'svg \[(\w+="#\w+")\]\{\w+:(#\w+)\}', STYLE.read_text())
    return dict(rules)


def panel(file: Path, title: str, is_map: bool, dark: bool) -> str:
    """One figure below its title, as the contents of a picture."""
    text = file.read_text()
    width, height = map(int, re.search(r'viewBox="0 0 (\d+) (\d+)"', text).groups())
    body = re.sub(r"<title>.*?</title>\s*<desc>.*?</desc>", "", text[text.index(">") + 1 : text.rindex("</svg>")], flags=re.DOTALL)
    ground = re.search(r'<rect class="ground".*?/>', body).group()
    colours = dark_colours() if dark else {}
    if is_map:
        body = body.replace(ground, ground.replace("#FFFFFF", "#F6F7F8") if dark else "")
    else:
        body = body.replace(ground, "")
        for old, new in colours.items():
            body = body.replace(old, re.sub('".*"', f'"{new}"', old))
    ink = colours.get('fill="#222222"', "#222222")
    heading = f'<text x="{WIDTH / 2}" y="34" text-anchor="middle" font-size="30" font-weight="600" fill="{ink}">{title}</text>'
    return f'{heading}\n<svg y="{TITLE}" width="{width}" height="{height}" viewBox="0 0 {width} {height}">{body}</svg>'


def picture(demo: Path, dark: bool, columns: int) -> str:
    """All panels in columns; a single column is for phones."""
    parts = []
    for number, (name, title, is_map) in enumerate(PANELS):
        x, y = number % columns * (WIDTH + GAP), number // columns * (TITLE + HEIGHT)
        drawn = panel(demo / f"{name}.svg", title, is_map, dark)
        if columns == 1:
            drawn = drawn.replace(TEXT, PHONE_TEXT)
        parts.append(f'<g transform="translate({x},{y})">\n{drawn}\n</g>')
    across, down = columns * (WIDTH + GAP) - GAP, -(-len(PANELS) // columns) * (TITLE + HEIGHT)
    start = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {across} {down}"'
    return f"{start} font-family=\"system-ui, 'DejaVu Sans', sans-serif\">\n" + "\n".join(parts) + "\n</svg>\n"


if __name__ == "__main__":
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / f"{PANELS[0][0]}.svg").exists():
        raise SystemExit("usage: readme.py DEMO, the folder that `sparsegp demo --out DEMO` wrote")
    for kind in ("light", "dark"):
        for name, columns in (("readme", 2), ("readme-phone", 1)):
            (HERE / f"{name}-{kind}.svg").write_text(picture(Path(sys.argv[1]), kind == "dark", columns))
