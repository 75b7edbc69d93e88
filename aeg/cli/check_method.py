"""`aeg check-method`: the contract, run on any registered propagation method."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from aeg.cli.terminal import say


def main(arguments: Sequence[str]) -> int:
    """Print each check of the contract with its result; return 1 where one fails."""
    parser = argparse.ArgumentParser(
        prog="aeg check-method", description="Run the contract on a propagation method, a plugin's too."
    )
    parser.add_argument("name", help="registry name of the method")
    parser.add_argument("params", nargs="*", metavar="parameter=value", help="parameters of the method")
    parser.add_argument("--plugin", action="append", default=[], help="module or file that registers it")
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:N")
    given = parser.parse_intermixed_args(arguments)
    from omegaconf import OmegaConf

    from aeg.backends.device import resolve_device
    from aeg.plugins import load_plugins
    from aeg.propagation import METHODS
    from aeg.propagation.contract import outcomes

    load_plugins(given.plugin)
    params = OmegaConf.to_container(OmegaConf.from_dotlist(given.params))
    method = METHODS.from_spec({**params, "name": given.name}, given.name)  # type: ignore[dict-item]
    failed = 0
    for outcome in outcomes(method, resolve_device(given.device)):
        say(f"{'FAIL' if outcome.failure else 'ok  '}  {outcome.claim}")
        if outcome.failure:
            say(f"      {outcome.failure}")
            failed += 1
    say(f"{given.name}: {'contract holds' if not failed else f'{failed} checks fail'}")
    return 1 if failed else 0
