"""The connections to an HDFS, and what it means when one of them fails."""

from __future__ import annotations

import socket
import ssl
from functools import lru_cache
from http.cookiejar import DefaultCookiePolicy
from typing import TYPE_CHECKING, Any

from evenflow.model.errors import InputError

if TYPE_CHECKING:
    import requests

LONGEST_CONNECT = 10.0  #: seconds to wait for a connection
_CONNECTIONS = 32  # kept open per process


class Transient(Exception):
    """A failure that may pass. `hopeless`: not for this server."""

    def __init__(self, reason: str, hopeless: bool = False) -> None:
        super().__init__(reason)
        self.hopeless = hopeless


def unanswered(error: BaseException) -> Transient:
    """Why there is no reply, without the address, which may contain a token."""
    reason, seen = "the connection failed", [error]
    while seen:
        one = seen.pop()
        if isinstance(one, ssl.SSLCertVerificationError):
            return Transient(f"its certificate is not trusted: {one.verify_message}", True)
        if isinstance(one, socket.gaierror):
            # EAI_AGAIN: the name server did not answer, which passes.
            return Transient("the host is unknown", one.errno != socket.EAI_AGAIN)
        if isinstance(one, TimeoutError) or "Timeout" in type(one).__name__:
            reason = "no answer in time"
        elif isinstance(one, ConnectionError) and one.strerror:
            reason = one.strerror.lower()
        children = (one.__cause__, getattr(one, "reason", None), *one.args)
        seen += [child for child in children if isinstance(child, BaseException)]
    return Transient(reason)


@lru_cache(maxsize=8)
def session(pid: int, kerberos: bool, verify: bool | str) -> requests.Session:
    """The connections of a process: one that was forked must not use those of its parent."""
    try:
        import requests
        from requests.adapters import HTTPAdapter
    except ImportError:
        raise InputError("HDFS needs requests; install it: pip install 'evenflow[hdfs]'") from None
    made = requests.Session()
    made.verify = verify
    if kerberos:
        made.auth = _negotiation()
    else:  # a cookie would make one user's requests those of another
        made.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    for scheme in ("http://", "https://"):
        made.mount(scheme, HTTPAdapter(pool_maxsize=_CONNECTIONS))
    return made


def _negotiation() -> Any:
    try:
        from requests_gssapi import OPTIONAL, HTTPSPNEGOAuth

        return HTTPSPNEGOAuth(mutual_authentication=OPTIONAL)
    except ImportError:
        pass
    try:
        from requests_kerberos import OPTIONAL as OPTIONAL_TOO
        from requests_kerberos import HTTPKerberosAuth

        return HTTPKerberosAuth(mutual_authentication=OPTIONAL_TOO)
    except ImportError:
        raise InputError(
            "HDFS with Kerberos needs one more package: pip install requests-gssapi"
        ) from None
