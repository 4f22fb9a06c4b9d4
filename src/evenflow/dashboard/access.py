"""Who may read the page: whoever has the token, under a name that no other site can take on."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
NO_TOKEN = (
    "This page needs its token: open the address that `evenflow dashboard` printed, with ?token=… at "
    "its end, or send the token as a bearer.\n"
)
WRONG_HOST = (
    "This page does not answer under this name. Open it by its IP address or as localhost, or start "
    "`evenflow dashboard` with --allow-host NAME.\n"
)


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(32)


class Access:
    """Lets requests through that have the token, and no others.

    Guarantee: no request without the token reads anything, the page's own files included. Tokens are
    compared in constant time. The cookie is out of reach of scripts and of other sites. A name that
    was pointed at this machine by somebody else's name server is refused. Nothing but GET and HEAD is
    answered.

    Parameters:
        app: what is behind it.
        token: that requests must have.
        port: of the server; cookies of one host are shared by its ports, so it is in the cookie's name.
        hosts: names that the page answers under, besides localhost and plain IP addresses.
    """

    def __init__(self, app: App, token: str, port: int, hosts: tuple[str, ...] = ()) -> None:
        self._app, self._token = app, token.encode()
        self._cookie = f"evenflow-{port}"
        self._hosts = {"localhost", *(host.lower() for host in hosts)}
        self.answered = time.monotonic()  #: when somebody with the token was last sent something

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = {name.decode("latin-1"): value for name, value in scope["headers"]}
        if not self._may_be_called(headers.get("host", b"").decode("latin-1")):
            await _refuse(send, 421, WRONG_HOST)
            return
        if scope["method"] not in ("GET", "HEAD"):
            await _refuse(send, 405, "This page only answers GET.\n")
            return
        by_address = scope["path"] == "/" and self._is_token(_in_query(scope["query_string"]))
        if not by_address and not self._has_token(headers):
            await _refuse(send, 401, NO_TOKEN)
            return

        async def secured(message: Message) -> None:
            self.answered = time.monotonic()
            if message["type"] == "http.response.start":
                given = {name for name, _ in message.get("headers", [])}
                more = [(n.encode(), v.encode()) for n, v in _HEADERS.items()]
                if by_address:
                    kept = (
                        f"{self._cookie}={self._token.decode()}; HttpOnly; SameSite=Strict; Path=/"
                    )
                    more.append((b"set-cookie", kept.encode()))
                kept_headers = [pair for pair in more if pair[0] not in given]
                message = {**message, "headers": [*message.get("headers", []), *kept_headers]}
            await send(message)

        await self._app(scope, receive, secured)

    def _may_be_called(self, host: str) -> bool:
        """Whether this is a name that other sites cannot take on: see DNS rebinding."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _has_token(self, headers: dict[str, bytes]) -> bool:
        kind, _, given = headers.get("authorization", b"").partition(b" ")
        if kind.lower() == b"bearer" and self._is_token(given.strip()):
            return True
        try:
            cookies = SimpleCookie(headers.get("cookie", b"").decode("latin-1"))
        except CookieError:
            return False
        kept = cookies.get(self._cookie)
        return kept is not None and self._is_token(kept.value.encode("latin-1", "replace"))

    def _is_token(self, given: bytes | None) -> bool:
        return given is not None and hmac.compare_digest(given, self._token)


def _in_query(query: bytes) -> bytes | None:
    found = parse_qs(query.decode("latin-1")).get("token")
    return found[0].encode() if found else None


async def _refuse(send: Send, status: int, text: str) -> None:
    headers = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
    headers.append((b"content-type", b"text/plain; charset=utf-8"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
