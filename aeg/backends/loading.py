"""What loading any transformers model has in common: a quiet library, and errors on one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet(bar: bool = False) -> Iterator[None]:
    """Keep transformers from reporting on the weights it loads, and from drawing a bar, unless `bar`."""
    from transformers.utils import logging as hf_logging

    verbosity, enabled = hf_logging.get_verbosity(), hf_logging.is_progress_bar_enabled()
    hf_logging.set_verbosity_error()
    if not bar:
        hf_logging.disable_progress_bar()
    try:
        yield
    finally:
        hf_logging.set_verbosity(verbosity)
        if enabled:
            hf_logging.enable_progress_bar()


def one_line(error: BaseException) -> str:
    """Return an error's message on one line, at most 200 characters."""
    return " ".join(str(error).split())[:200]
