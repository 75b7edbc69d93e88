"""Job scripts: templates that run as they are, filled with a site's options and a sweep's settings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import aeg
from aeg.errors import ConfigError, DataError, nearest

_OPTION = re.compile(r"#SBATCH\s+--(?P<name>[\w-]+)(?:=(?P<value>.*))?")
_SETTING = re.compile(r"(?P<name>AEG_\w+)=\$\{(?P=name):-.*")
_VALUE = re.compile(r"[^\n\r\"]*")


@cache
def templates() -> Path:
    """Return the folder of the templates: that of the source tree, else the one in the package.

    Raises:
        DataError: if there is neither.
    """
    package = Path(aeg.__file__).resolve().parent
    for folder in (package.parent / "slurm", package / "_slurm"):
        if (folder / "common.sh").is_file():
            return folder
    raise DataError(f"{package}: the templates of job scripts are missing; install the package again")


def template(name: str) -> str:
    """Return the text of a template (`index`, `array`, `report`, `evaluate`, `vllm_server`, `vllm_batch`).

    Raises:
        DataError: if there is no such template.
    """
    known = {path.stem: path for path in templates().glob("*.sbatch")}
    if name not in known:
        raise DataError(f"no job script is called {name!r}. {nearest(name, known)}")
    return known[name].read_text(encoding="utf-8")


def filled(text: str, options: Mapping[str, str | None], settings: Mapping[str, str]) -> str:
    r"""Return a template with options of sbatch and settings in the place of its own.

    Args:
        text: the template.
        options: by long name without dashes; None takes the option out, an empty string is an option without value.
        settings: values of the template's variables.

    Raises:
        ConfigError: if an option cannot stand on one line, or the template has no such setting.

    Example:
        >>> text = "#!/bin/bash\n#SBATCH --mem=8G\n#SBATCH --requeue\n\nAEG_WHAT=${AEG_WHAT:-}\n"
        >>> print(filled(text, {"mem": "16G", "qos": "low"}, {"AEG_WHAT": "my runs"}), end="")
        #!/bin/bash
        #SBATCH --mem=16G
        #SBATCH --requeue
        #SBATCH --qos=low
        <BLANKLINE>
        AEG_WHAT='my runs'
    """
    for name, value in options.items():
        if value is not None and not _VALUE.fullmatch(value):
            raise ConfigError(f"--{name}: got {value!r}, expected a value without quotes and line breaks")
    lines, left, last = [], dict(options), 0
    missing = dict(settings)
    for line in text.splitlines():
        option, setting = _OPTION.fullmatch(line.rstrip()), _SETTING.match(line)
        if option:
            if option["name"] in left:
                lines += _option(option["name"], left.pop(option["name"]))
            else:
                lines.append(line)
            last = len(lines)
        elif setting and setting["name"] in missing:
            lines.append(f"{setting['name']}={shlex.quote(missing.pop(setting['name']))}")
        else:
            lines.append(line)
    if missing:
        raise ConfigError(f"the template has no setting {min(missing)}; take the templates of this version")
    lines[last:last] = [line for name, value in left.items() for line in _option(name, value)]
    return "\n".join(lines) + "\n"


def _option(name: str, value: str | None) -> list[str]:
    if value is None:
        return []
    if value == "":
        return [f"#SBATCH --{name}"]
    return [f'#SBATCH --{name}="{value}"' if re.search(r"\s", value) else f"#SBATCH --{name}={value}"]
