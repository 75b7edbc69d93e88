"""A plugin: a propagation method that fails in the second process of a group, or kills it."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

from aeg.config.ranges import param
from aeg.errors import DataError
from aeg.propagation import METHODS
from aeg.propagation.ppr import PPR


@METHODS.register("trouble")
@dataclass(frozen=True)
class Trouble(PPR):
    """PPR, where nothing happens.

    Attributes:
        kind: what happens.
    """

    kind: str = param("error", choices=("error", "kill"))

    engine: str = param("iterate", choices=("iterate",))

    def propagate(self, op, seeds, context):
        if os.environ.get("RANK") == "1":
            if self.kind == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise DataError("this share is made to fail")
        return super().propagate(op, seeds, context)
