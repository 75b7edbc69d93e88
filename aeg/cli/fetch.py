"""`aeg fetch`: what a config needs from the network, gathered into a folder for nodes without one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from aeg.cli.terminal import Reporter, say


def main(arguments: Sequence[str]) -> int:
    """Gather, or check what was gathered; return 0 where nothing is missing, else 1."""
    parser = argparse.ArgumentParser(
        prog="aeg fetch",
        description="Gather weights, tokenizers and data that a config needs into a folder, with a manifest of hashes "
        "and a script that sets the environment, so that it runs where there is no network.",
    )
    parser.add_argument("config", help="a YAML file, the name of a shipped config, or a sweep's folder")
    parser.add_argument("--to", type=Path, required=True, metavar="DIR", help="the folder; what is there stays")
    parser.add_argument("--check", action="store_true", help="fetch nothing: compare what is there with the manifest")
    parser.add_argument("overrides", nargs="*", metavar="key.sub=value", help="override the config")
    given = parser.parse_intermixed_args(arguments)
    from aeg.preparing.fetching import MISSING, SCRIPT, damaged, fetch, quoted_overrides

    if given.check:
        lines = damaged(given.to)
        for line in lines:
            say(line)
        say(f"{given.to}: {len(lines)} files are not what was fetched" if lines else f"{given.to}: whole")
        return 1 if lines else 0
    from aeg.pipeline.methods import resolve
    from aeg.preparing.needs import distinct
    from aeg.preparing.runs import runs_of

    configs = [config for _, config in runs_of(given.config, given.overrides)]
    needs = distinct([(config, resolve(config)) for config in configs])
    items = fetch(needs, given.config, configs[0].data_root, given.to, Reporter())
    missing = [item for item in items if item.status == MISSING]
    for item in missing:
        say(f"missing: {item.kind} {item.name}: {item.note}")
    words = quoted_overrides(items)
    say(f"on a node without network:\n  source {given.to / SCRIPT}\n  aeg doctor {given.config} {words}".rstrip())
    say(f"  aeg run {given.config} {words}".rstrip())
    return 1 if missing else 0
