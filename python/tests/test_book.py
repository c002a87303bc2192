"""The book (`docs/`) and the README: their links are valid, and their code runs, chapter by chapter, and prints the
shown outputs.

Run as a program, this file writes the current output of the code into the chapters, or only into the named chapters:
`python python/tests/test_book.py failures`.
"""

import contextlib
import importlib.util
import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CHAPTERS = sorted(DOCS.glob("*.md"))
PAGES = [ROOT / "README.md", *CHAPTERS]
# The output of a command must equal the shown output except for numbers. The words around a gap must agree too.
NUMBER = re.compile(r"[-+−]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?")
# A duration in two units, once its numbers are replaced: a faster machine prints the same duration in one.
TWO_UNITS = re.compile(r"# (?:h\s+# min|min\s+# s)\b")
GAP = "…"


class Block:
    """A fenced block of a chapter: its language, its lines, and the number of its first line in the chapter."""

    def __init__(self, language: str, first: int):
        self.language, self.first, self.lines = language, first, []


def blocks(lines: list[str]) -> list[Block]:
    """Returns the fenced blocks of a chapter."""
    found, inside = [], False
    for number, line in enumerate(lines):
        if line.lstrip().startswith("```"):
            if not inside:
                found.append(Block(line.strip()[3:], number + 1))
            inside = not inside
        elif inside:
            found[-1].lines.append(line)
    return found


def commands(lines: list[str]) -> list[tuple[str, int, list[str]]]:
    """Returns the commands of a console block, each with the position and the lines of its output."""
    found, more = [], False
    for number, line in enumerate(lines):
        if line.startswith("$ ") or more:
            if not more:
                found.append(["", 0, []])
            more = line.endswith("\\")
            found[-1][0] += line.removeprefix("$ ").removesuffix("\\") + (" " if more else "")
            found[-1][1] = number + 1
        elif found:
            found[-1][2].append(line)
    return [tuple(one) for one in found]


def parts(text: str) -> list[list[str]]:
    """Returns the words between gaps, with all numbers replaced by the same text."""
    words = TWO_UNITS.sub("# s", NUMBER.sub("#", text)).split()
    found = [[]]
    for word in words:
        if word == GAP:
            found.append([])
        else:
            found[-1].append(word)
    return found


def agrees(shown: str, printed: str) -> bool:
    """Returns True if a text with gaps agrees with the printed text."""
    wanted, (words,) = parts(shown), parts(re.sub(rf"(?<!\S){GAP}(?!\S)", "...", printed))
    place = 0
    for index, part in enumerate(wanted):
        starts = range(place, len(words) - len(part) + 1) if index else [0]
        if index == len(wanted) - 1 and part:
            starts = [start for start in starts if start == len(words) - len(part)]
        place = next((start + len(part) for start in starts if words[start : start + len(part)] == part), None)
        if place is None:
            return False
    return len(wanted) > 1 or place == len(words)


def renewed(shown: list[str], printed: str) -> list[str]:
    """Returns the shown lines with the current output instead of the old output, and with the same gaps."""
    now = printed.rstrip("\n").split("\n")
    if not any(GAP in line.split() for line in shown):
        return now
    lines, place = [], 0
    for line in shown:
        if line.strip() != GAP:
            place = next((at for at in range(place, len(now)) if parts(now[at]) == parts(line)), None)
            assert place is not None, f"no line like {line!r} in:\n{printed}"
            line, place = now[place], place + 1
        lines.append(line)
    return lines


class Chapter:
    """A chapter whose code runs in its own folder and namespace."""

    def __init__(self, path: Path, folder: Path):
        self.path, self.folder = path, folder
        self.lines = path.read_text().split("\n")
        self.names = {"__name__": path.stem}
        (folder / "examples").symlink_to(ROOT / "examples")
        (folder / "python").mkdir()
        (folder / "python" / "reader").symlink_to(ROOT / "python" / "reader")

    def run(self, compare) -> None:
        """Runs all blocks, then compares them from the last to the first, so that positions stay valid while lines are
        replaced."""
        outcomes, before = [], None
        for block in blocks(self.lines):
            if block.language == "console":
                for command, at, shown in commands(block.lines):
                    printed = self.command(command, any(line.startswith("error: ") for line in shown))
                    if shown:
                        outcomes.append((command, block.first + at, shown, printed))
            elif block.language == "python":
                before = self.python("\n".join(block.lines))
                continue
            elif block.language == "text" and before is not None and not self.between(block):
                outcomes.append(("python", block.first, block.lines, before))
            before = None
        for command, at, shown, printed in reversed(outcomes):
            compare(self, command, at, shown, printed)

    def between(self, block: Block) -> bool:
        """Returns True if there is text between a block and the previous block."""
        lines = self.lines[: block.first - 1]
        while lines and not lines[-1].strip():
            lines.pop()
        return not lines or lines[-1].strip() != "```"

    def paths(self) -> str:
        """Returns the search path of programs, with the command sparsegp first."""
        program = os.environ.get("SPARSEGP_BIN", str(Path(sys.executable).parent))
        return os.pathsep.join([program, os.environ["PATH"]])

    def command(self, command: str, fails: bool) -> str:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env={**os.environ, "PATH": self.paths()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert (done.returncode != 0) == fails, f"{self.path.name}: {command}\n{done.stdout}"
        return done.stdout

    def python(self, code: str) -> str:
        printed, here = io.StringIO(), os.getcwd()
        os.chdir(self.folder)
        try:
            with contextlib.redirect_stdout(printed), mock.patch.dict(os.environ, {"PATH": self.paths()}):
                exec(compile(code, self.path.name, "exec"), self.names)
        finally:
            os.chdir(here)
        return printed.getvalue()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).stem)
def test_code_prints_what_is_shown(path, tmp_path):
    def compare(chapter, command, at, shown, printed):
        shown = "\n".join(shown)
        assert agrees(shown, printed), f"line {at + 1}: {command}\nshown:\n{shown}\nprinted:\n{printed}"

    Chapter(path, tmp_path).run(compare)


def test_every_block_has_a_known_language():
    crates = "".join((ROOT / crate / "lib.rs").read_text() for crate in ("src", "tables/src"))
    for path in PAGES:
        languages = {block.language for block in blocks(path.read_text().split("\n"))}
        # Blocks of `sh` install or measure and `text` is only read. All other blocks are run here or by the
        # documentation tests of the crate.
        assert languages <= {"console", "python", "rust", "sh", "text"}, (path.name, languages)
        included = f"../{path.relative_to(ROOT).as_posix()}" in crates
        assert "rust" not in languages or included, f"{path.name} is in the documentation tests of no crate"


def anchors(path: Path) -> set[str]:
    """Returns the anchors of the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_are_valid_and_every_chapter_is_in_the_contents():
    for page in [*PAGES, ROOT / "python" / "README.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r'(?:\]\(|src="|srcset=")([^)\s"]+)[)"]', page.read_text()):
            if re.match(r"https?:", target):
                continue
            name, _, anchor = target.partition("#")
            other = (page.parent / name).resolve() if name else page
            assert other.exists(), f"{page.name}: {target}"
            assert page.parent != DOCS or DOCS in other.parents, f"{page.name}: {target} leaves the book"
            assert not anchor or anchor in anchors(other), f"{page.name}: {target}"
    contents = (DOCS / "SUMMARY.md").read_text()
    missing = [path.name for path in CHAPTERS if path.name != "SUMMARY.md" and f"({path.name})" not in contents]
    assert not missing


def readme_table():
    """Returns the program that creates the table of results of the README."""
    place = ROOT / "benches" / "peers" / "readme_table.py"
    specification = importlib.util.spec_from_file_location(place.stem, place)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_results_of_the_readme_are_those_of_the_measurement_files():
    text = (ROOT / "README.md").read_text()
    assert text == readme_table().renewed(text), "run python3 benches/peers/readme_table.py --write"


def test_the_chapter_of_losses_shows_its_measurement_file():
    program = [sys.executable, str(ROOT / "benches" / "peers" / "losses.py")]
    printed = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    assert printed in (DOCS / "losses.md").read_text(), "run python3 benches/peers/losses.py --write"


@pytest.mark.parametrize("path", sorted((ROOT / "benches/peers/results").glob("*.csv")), ids=lambda path: path.stem)
def test_measurement_files_hold_the_numbers_of_their_chapter(path):
    file = readme_table().Measurements(path.stem)
    assert {"date", "machine", "ours", "peer", "chapter"} <= set(file.facts)
    chapter, anchor = file.facts["chapter"].split("#")
    assert anchor in anchors(ROOT / chapter)
    number = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
    lines = [line for line in (ROOT / chapter).read_text().split("\n") if line.startswith("| ")]
    shown = [re.sub(r"(\d),(\d{3})", r"\1\2", line.replace("−", "-")) for line in lines]
    for row in file.rows:
        values = {float(value) for name, value in row.items() if value and name not in ("set", "task", "options")}
        named = [set(map(float, number.findall(line))) for line in shown if line.startswith(f"| {row['set']}")]
        assert any(values <= found for found in named), f"{chapter} has no line of {row}"


def write(names: list[str]) -> None:
    """Writes the current output of the code into the chapters with these names, or into all."""
    import matplotlib

    matplotlib.use("Agg")

    def renew(chapter, command, at, shown, printed):
        chapter.lines[at : at + len(shown)] = renewed(shown, printed)

    for path in PAGES:
        if not names or path.stem in names:
            with tempfile.TemporaryDirectory() as folder:
                chapter = Chapter(path, Path(folder))
                chapter.run(renew)
                path.write_text("\n".join(chapter.lines))


if __name__ == "__main__":
    write(sys.argv[1:])
