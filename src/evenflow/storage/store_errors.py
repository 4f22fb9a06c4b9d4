"""What an object store says when it fails, in one line and without secrets."""

from __future__ import annotations

import errno
import re
from enum import Enum

_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>|\"reason\": ?\"(\w{1,60})\"|\(code: (\w{1,60})\)\n")
_RETRIABLE = frozenset({408, 429, 500, 502, 503, 504})
_BUSY = frozenset({"InternalError", "ServiceUnavailable", "SlowDown", "ServerBusy"})
_NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted"})
_WRONG_KEYS = frozenset(
    [
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "ExpiredToken",
        "InvalidToken",
        "TokenRefreshRequired",
        "AuthenticationFailed",
        "InvalidAuthenticationInfo",
        "AuthorizationHeaderMalformed",
        "RequestTimeTooSkewed",
        "authError",
    ]
)
# Where machines ask who they are. What a user's own names look like must not matter here.
_METADATA = re.compile(
    r"performing \w+ http://(?:169\.254\.(?:169\.254|170\.2)|metadata\.google\.internal|\[fd00:ec2::254\])"
    r"|performing \w+ \S+/latest/(?:api/token|meta-data/iam)"
)
_TOKEN = "source: TokenRequest {"  # of an identity provider, before the store is asked at all
_NO_BUCKET_TEXT = "The specified bucket does not exist"


class Problem(Enum):
    """What kind of failure it is: the errno of it, and whether to try again."""

    BUCKET = "there is no such bucket", errno.ENODEV, False
    CREDENTIALS = "the store does not accept the credentials", errno.EACCES, False
    NO_CREDENTIALS = "no credentials were found", errno.EACCES, False
    RIGHTS = "the credentials lack the rights", errno.EACCES, False
    REGION = "the bucket is in another region", errno.EREMOTE, False
    HOST = "the host of the store is unknown", errno.EHOSTUNREACH, True
    NETWORK = "the store cannot be reached", errno.ECONNREFUSED, True
    TIMEOUT = "the store did not answer in time", errno.ETIMEDOUT, True
    CONDITIONAL = "the store does not support this request", errno.EOPNOTSUPP, False
    BUSY = "the store failed or asked for fewer requests", errno.EIO, True
    OTHER = "the store refused the request", errno.EIO, False

    @property
    def sentence(self) -> str:
        """What is wrong, in a few words."""
        return str(self.value[0])

    @property
    def number(self) -> int:
        """The nearest errno."""
        return int(self.value[1])

    @property
    def passes(self) -> bool:
        """Whether it may be over in a moment."""
        return bool(self.value[2])


class StoreError(OSError):
    """A request to an object store failed for good.

    `strerror` is one line; it has no credentials, signatures or query strings. `problem` says what kind
    of failure it was, for whoever can say what to do about it.
    """

    problem: Problem = Problem.OTHER


def store_error(error: Exception, where: str) -> OSError:
    """obstore's error as an `OSError` that a user can read.

    Parameters:
        error: as obstore raised it; its text has addresses with queries, and bodies of replies.
        where: the address of the object.
    """
    text = str(error)
    status, code = _status(text), _code(text)
    problem = _problem(error, text, status, code)
    if isinstance(error, FileNotFoundError) and problem is not Problem.BUCKET:
        return FileNotFoundError(errno.ENOENT, "No such object", where)
    if problem is Problem.NO_CREDENTIALS:
        status = 0  # not the store's
    return failure(problem, where, " ".join(str(word) for word in (status, code) if word))


def failure(problem: Problem, where: str, said: str = "") -> StoreError:
    """The error for a problem, with what the store said, such as `403 AccessDenied`."""
    sentence = f"{problem.sentence} ({said})" if said else problem.sentence
    error = StoreError(problem.number, sentence, where)
    error.problem = problem
    return error


def beyond_end(error: Exception) -> bool:
    """Whether a range was refused because it begins at or after the end of the object."""
    return _status(str(error)) == 416


def _status(text: str) -> int:
    found = _STATUS.search(text)
    return int(found[1]) if found else 0


def _code(text: str) -> str:
    found = _CODE.search(text)
    return next(filter(None, found.groups())) if found else ""


def _problem(error: Exception, text: str, status: int, code: str) -> Problem:
    kind = type(error).__name__
    if code in _NO_BUCKET or (status == 404 and _NO_BUCKET_TEXT in text):
        return Problem.BUCKET
    if _METADATA.search(text):
        return Problem.NO_CREDENTIALS
    refused = _TOKEN in text and status in (400, 401, 403)
    if refused or code in _WRONG_KEYS or status == 401 or kind == "UnauthenticatedError":
        return Problem.CREDENTIALS
    if status == 403 or code == "AccessDenied" or kind == "PermissionDeniedError":
        return Problem.RIGHTS
    if "BareRedirect" in text or status in (301, 307) or code == "PermanentRedirect":
        return Problem.REGION
    if status in (405, 501) or code == "NotImplemented" or kind == "NotSupportedError":
        return Problem.CONDITIONAL
    if status in _RETRIABLE or code in _BUSY:
        return Problem.BUSY
    if status or code:
        return Problem.OTHER
    return _connection(text)


def _connection(text: str) -> Problem:
    if "dns error" in text:
        return Problem.HOST
    if re.search(r"kind: Timeout|TimedOut|timed out|operation timed", text):
        return Problem.TIMEOUT
    if re.search(r"HttpError|reqwest::Error|hyper|error sending request|[Cc]onnection", text):
        return Problem.NETWORK
    return Problem.OTHER
