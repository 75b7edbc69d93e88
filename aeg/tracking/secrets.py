"""Leaving secrets out of what is logged: keys by their names, by their looks, and by what the environment holds."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

REDACTED = "[redacted]"
_NAME = re.compile(
    r"(?i)(^|[_\-.])(api[_\-.]?key|key|token|secret|password|passwd|pwd|credentials?|authorization|cookie|signature|sig)s?$"
)
_HARMLESS = re.compile(r"(?i)(max|num|prompt|completion|budget|cached|total|batch|pad|eos|bos|a|per)[_\-.]?tokens?$")
_LOOKS = re.compile(
    r"\b(sk-[\w-]{8,}|hf_[A-Za-z0-9]{8,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|xox[abprs]-[\w-]{8,}"
    r"|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]+|wandb_v1_\w{16,})"
)
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}")
_USER = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@]+@")
_QUERY = re.compile(r"(?i)([?&;](?:[\w.-]*(?:key|token|secret|password|signature|credential)[\w.-]*|sig)=)[^&\s\"'#]+")
_ENVIRONMENT = re.compile(r"(?i)(key|token|secret|password|passwd|credential|netrc|auth)")
_NO_VALUE = re.compile(r"(?i)(_env|_file|_path|_dir|_sock)$")  # variables that name a place, and no secret
_SHORTEST = 8  # characters of an environment variable's value that counts as a secret


def is_secret_name(name: str) -> bool:
    """Tell whether a key of a config names a secret.

    Example:
        >>> [is_secret_name(name) for name in ("api_key", "hf_token", "Cookie", "max_tokens", "api_key_env")]
        [True, True, True, False, False]
    """
    return bool(_NAME.search(name)) and not _HARMLESS.search(name)


class Redactor:
    """Takes secrets out of texts and plain values.

    Args:
        environment: whose variables with secret names are looked for in texts, by value; None takes this process's.

    Example:
        >>> redact = Redactor({"MY_API_KEY": "abcd-efgh-1234"})
        >>> redact.value({"api_key": "x", "url": "https://ann:pw@host/v1?token=t1&n=2", "note": "it is abcd-efgh-1234"})
        {'api_key': '[redacted]', 'url': 'https://[redacted]@host/v1?token=[redacted]&n=2', 'note': 'it is [redacted]'}
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        held = os.environ if environment is None else environment
        found = {
            value.strip()
            for name, value in held.items()
            if _ENVIRONMENT.search(name) and not _NO_VALUE.search(name) and len(value.strip()) >= _SHORTEST
        }
        self.values = tuple(sorted((value for value in found if not _is_place(value)), key=len, reverse=True))

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        for value in self.values:
            text = text.replace(value, REDACTED)
        text = _LOOKS.sub(REDACTED, text)
        text = _BEARER.sub(rf"\1 {REDACTED}", text)
        text = _USER.sub(rf"\1{REDACTED}@", text)
        return _QUERY.sub(rf"\1{REDACTED}", text)

    def value(self, value: Any) -> Any:
        """Return a plain value (dicts, lists, texts, numbers) without secrets."""
        if isinstance(value, Mapping):
            return {
                self.text(str(key)): REDACTED if is_secret_name(str(key)) and _told(of) else self.value(of)
                for key, of in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return self.text(value) if isinstance(value, str) else value

    def pattern(self) -> str:
        """Return a regular expression that matches the secrets in a text, for searches in tables."""
        parts = [*(re.escape(value) for value in self.values), _LOOKS.pattern, r"://[^\s/@]+@"]
        return "|".join(f"(?:{part})" for part in parts)


def _told(value: Any) -> bool:
    """Whether there is anything to hide: no secret is empty, a truth value, or a number."""
    return value not in (None, "", [], {}) and not isinstance(value, bool | int | float)


def _is_place(value: str) -> bool:
    return value.startswith(("/", "./", "~"))
