"""One readable report, as a web page and as Markdown, of what runs and sweeps left in their folders."""

from aeg.report.build import document, write

__all__ = ["document", "write"]
