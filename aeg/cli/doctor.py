"""`aeg doctor`: what a config needs and this machine lacks."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from aeg.cli.terminal import say

if TYPE_CHECKING:
    from aeg.preparing.finding import Finding


def main(arguments: Sequence[str]) -> int:
    """Look, print the findings, and return 0 where nothing is missing, else 1."""
    parser = argparse.ArgumentParser(
        prog="aeg doctor",
        description="Look whether this machine has what a config needs: models, data, endpoints, device, memory, "
        "disk, folders that can be written. Nothing is downloaded.",
        epilog="exit code: 0 nothing is missing, 1 something is, 2 wrong input",
    )
    parser.add_argument("config", help="a YAML file, the name of a shipped config, or a sweep's folder")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument(
        "--fast", action="store_true", help="do not read the corpus, load models or try the GPU's faiss"
    )
    parser.add_argument("--login", action="store_true", help="this machine only submits; ask for no GPU and no memory")
    parser.add_argument("overrides", nargs="*", metavar="key.sub=value", help="override the config")
    given = parser.parse_intermixed_args(arguments)
    findings = []
    for finding in _findings(given):
        findings.append(finding)
        if not given.json:
            say(str(finding))
    missing = sum(finding.status == "missing" for finding in findings)
    if given.json:
        say(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=1, ensure_ascii=False))
    else:
        say(f"{missing} missing" if missing else "nothing is missing")
    return 1 if missing else 0


def _findings(given: argparse.Namespace) -> Iterator[Finding]:
    from aeg.errors import ConfigError
    from aeg.preparing.doctor import Doctor
    from aeg.preparing.finding import told
    from aeg.preparing.runs import runs_of

    try:
        configs = runs_of(given.config, given.overrides)
    except ConfigError as error:
        yield told("config", error)
        return
    yield from Doctor(configs, given.fast, given.login).findings()
