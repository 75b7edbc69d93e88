"""`aeg explain`: why a question finds what it finds in an index."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aeg.cli.terminal import say

if TYPE_CHECKING:
    from aeg.explain.records import Explanation
    from aeg.explain.subject import Subject


def main(arguments: Sequence[str]) -> int:
    """Explain a question to an index."""
    parser = argparse.ArgumentParser(
        prog="aeg explain",
        description="Tell why a question finds what it finds: links, seeds, ranked atoms, the chains that reach them.",
    )
    parser.add_argument("index", type=Path, help="folder made by `aeg index`")
    parser.add_argument("question")
    add_options(parser)
    parser.add_argument("--answer", action="store_true", help="with sieve and reader, which may ask a language model")
    parser.add_argument("overrides", nargs="*", metavar="key.sub=value", help="override the index's config")
    given = parser.parse_intermixed_args(arguments)
    check_options(parser, given)
    from aeg.explain.subject import of_index

    return show(of_index(given.index, given.question, given.overrides, given.method, given.answer), given)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what both programs that explain can be told."""
    parser.add_argument("--method", metavar="LABEL", help="propagation entry of the config (default: the first)")
    parser.add_argument("--top", type=int, default=10, metavar="K", help="atoms to explain (default 10)")
    parser.add_argument("--chains", type=int, default=3, metavar="N", help="chains of each atom (default 3)")
    parser.add_argument(
        "--walks", action="store_true", help="chains may visit a node again; otherwise such walks are left out"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one self-contained page")


def check_options(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """End with an error where a number is out of range."""
    for name in ("top", "chains"):
        if getattr(given, name) < 1:
            parser.error(f"--{name}: got {getattr(given, name)}, expected at least 1")


def show(subject: Subject, given: argparse.Namespace) -> int:
    """Explain a question and print or write the explanation as the arguments say."""
    from aeg.explain.collecting import explanation

    try:
        found = explanation(subject, given.top, given.chains, simple=not given.walks)
    finally:
        subject.retriever.pipeline.close()
    if given.html is not None:
        write_page(found, given.html)
    if given.json:
        from aeg.explain.collecting import as_plain

        say(json.dumps(as_plain(found), ensure_ascii=False))
    elif given.html is not None:
        say(f"page: {given.html}")
    else:
        from aeg.explain.text import as_text

        say(as_text(found))
    return 0


def write_page(found: Explanation, file: Path) -> None:
    """Write the page by rename.

    Raises:
        DataError: if the file cannot be written.
    """
    from aeg.artifacts import write_text
    from aeg.errors import DataError
    from aeg.explain.page import as_page

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, as_page(found))
    except OSError as error:
        raise DataError(f"{file}: cannot be written ({error.strerror})") from None
