"""Whether a language model's endpoint answers, knows the key, and serves the model."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlencode, urlsplit

from aeg.backends.llm.connection import is_loopback
from aeg.backends.llm.openai import OpenAI
from aeg.preparing.finding import MISSING, OK, WARNING, Finding

SECONDS = 5.0


def look(key: str, backend: OpenAI, seconds: float = SECONDS, elsewhere: bool = False) -> Finding:
    """Ask an endpoint for its list of models.

    Args:
        key: of the config, `llm.ROLE`.
        backend: the endpoint; its key, if its environment variable holds one, is sent to it and told to nobody.
        seconds: to wait at most.
        elsewhere: this is not the machine that the run will be on, so what does not answer is worth knowing only.
    """
    check, bad = f"{key} endpoint", WARNING if elsewhere else MISSING
    secret = os.environ.get(backend.api_key_env, "").strip()
    if backend.official and not secret:
        remedy = f"export {backend.api_key_env}=... , or name the variable that holds it in {key}.api_key_env"
        return Finding(check, MISSING, f"{backend.endpoint} needs a key, and {backend.api_key_env} is not set", remedy)
    if elsewhere and is_loopback(urlsplit(backend.endpoint).hostname or ""):
        return Finding(check, OK, f"{backend.endpoint} is of the node that the run will be on; looked at there")
    try:
        served = _models(backend, secret, seconds)
    except urllib.error.HTTPError as error:
        return _refused(check, backend, error.code)
    except (OSError, ValueError) as error:  # no route, refused, timed out, no HTTP, no JSON
        reason = getattr(error, "reason", None) or error
        remedy = f"start the server, or correct {key}.base_url"
        return Finding(check, bad, f"{backend.endpoint} does not answer ({type(reason).__name__}: {reason})", remedy)
    if served and backend.model not in served:
        shown = ", ".join(served[:5]) + (", ..." if len(served) > 5 else "")
        return Finding(check, bad, f"{backend.endpoint} serves {shown}, not {backend.model!r}", f"correct {key}.model")
    return Finding(check, OK, f"{backend.endpoint} answers" + (f" and serves {backend.model}" if served else ""))


def _models(backend: OpenAI, secret: str, seconds: float) -> list[str]:
    query = f"?{urlencode(backend.query)}" if backend.query else ""
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    request = urllib.request.Request(f"{backend.endpoint}/models{query}", headers=headers)
    local = is_loopback(urlsplit(backend.endpoint).hostname or "")
    opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if local else []))
    with opener.open(request, timeout=seconds) as reply:
        content: Any = json.loads(reply.read(4_000_000))
    entries = content.get("data", []) if isinstance(content, dict) else []
    return [str(entry["id"]) for entry in entries if isinstance(entry, dict) and "id" in entry]


def _refused(check: str, backend: OpenAI, code: int) -> Finding:
    if code in (401, 403):
        remedy = f"see the key in the environment variable {backend.api_key_env}"
        return Finding(check, MISSING, f"{backend.endpoint} refuses the key (HTTP {code})", remedy)
    if code >= 500:
        return Finding(check, MISSING, f"{backend.endpoint} fails (HTTP {code})", "look at the server, or wait for it")
    return Finding(check, WARNING, f"{backend.endpoint} answers, but lists no models (HTTP {code})")
