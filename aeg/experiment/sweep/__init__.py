"""Sweeps: one experiment file that becomes many runs, which share what they can."""

from aeg.experiment.sweep.record import load_sweep, read_sweep
from aeg.experiment.sweep.running import run_sweep
from aeg.experiment.sweep.sweep import Sweep, SweepRun

__all__ = ["Sweep", "SweepRun", "load_sweep", "read_sweep", "run_sweep"]
