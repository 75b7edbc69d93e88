"""The HTTP connections to an endpoint: how many, through which proxy, and with the official client on top."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from aeg.errors import LLMError

if TYPE_CHECKING:
    import httpx2
    import openai

_CONNECT = 30.0  # seconds to reach the endpoint at most


def make_client(
    base_url: str, key: str, query: Mapping[str, str], *, connections: int, timeout: float, official: bool
) -> openai.AsyncOpenAI:
    """Return an asynchronous client without retries or a time limit of its own (connecting excepted).

    Args:
        base_url: of the endpoint, without a query.
        key: sent as the bearer token.
        query: put behind every address.
        connections: requests that may be under way at once.
        timeout: seconds to connect at most, if fewer than 30.
        official: whether it is OpenAI's own; no other is told OpenAI's organisation and project.

    Raises:
        LLMError: if the proxy that the environment names cannot be used.
    """
    import httpx2
    import openai

    limits = httpx2.Limits(max_connections=connections, max_keepalive_connections=connections)
    options: dict[str, Any] = {"limits": limits, "timeout": httpx2.Timeout(None, connect=min(timeout, _CONNECT))}
    client = openai.AsyncOpenAI(
        api_key=key,
        base_url=base_url,
        default_query=query,
        max_retries=0,
        timeout=options["timeout"],
        http_client=_http_client(base_url, options),
    )
    if not official:
        client.organization = client.project = None
    return client


def is_loopback(host: str) -> bool:
    """Tell whether a host name means this machine.

    Example:
        >>> is_loopback("localhost"), is_loopback("127.0.0.2"), is_loopback("::1"), is_loopback("10.0.0.1")
        (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def is_proxied(base_url: str) -> bool:
    """Tell whether the environment names a proxy for an address; never for this machine."""
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    proxies = getproxies()
    return not is_loopback(host) and bool({parts.scheme, "all"} & set(proxies)) and not proxy_bypass(host)


def _http_client(base_url: str, options: dict[str, Any]) -> httpx2.AsyncClient:
    """Through aiohttp, which takes half the time; the plain client where there is a proxy: it knows every kind."""
    import httpx2
    import openai

    if is_proxied(base_url):
        try:
            return openai.DefaultAsyncHttpxClient(**options)
        except (ValueError, ImportError, httpx2.InvalidURL) as error:  # the message can hold the proxy's password
            raise LLMError(
                f"the proxy that the environment names for {base_url} cannot be used ({type(error).__name__}); see "
                "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, and NO_PROXY for the hosts that need none"
            ) from None
    loopback = is_loopback(urlsplit(base_url).hostname or "")
    try:
        return openai.DefaultAioHttpClient(trust_env=not loopback, **options)
    except RuntimeError:  # aiohttp is not installed
        return openai.DefaultAsyncHttpxClient(trust_env=not loopback, **options)
