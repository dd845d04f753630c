"""Writing tables of calibration runs, with the commit and the seed that made them."""

import csv
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["RESULTS", "commit", "markdown", "write"]

RESULTS = Path(__file__).parent / "results"


def commit() -> str:
    """Short hash of the commit, marked where the package differed from it."""
    root = Path(__file__).parents[2]

    def git(*arguments: str) -> str:
        found = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, check=True
        )
        return found.stdout.strip()

    changed = git("status", "--porcelain", "--", "dpbayes")
    return git("rev-parse", "--short", "HEAD") + (" (package with later changes)" * bool(changed))


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as a Markdown table."""
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(str(row[n]) for n in names) + " |" for row in rows]
    return "\n".join(lines)


def write(
    name: str, title: str, facts: Sequence[str], rows: Sequence[dict[str, Any]], folder: Path
) -> str:
    """Write ``name.md`` and ``name.csv``; return the text of the former."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join([f"# {title}", "\n".join(f"- {fact}" for fact in facts), markdown(rows)])
    (folder / f"{name}.md").write_text(text + "\n", encoding="utf-8")
    with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text
