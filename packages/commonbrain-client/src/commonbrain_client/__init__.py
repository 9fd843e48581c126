"""Async, typed client of a shared Commonbrain server.

`CommonbrainClient` has a method for each operation; `commonbrain_client.models` the requests and
replies.
"""

from commonbrain_client.client import CommonbrainClient
from commonbrain_client.errors import (
    AuthenticationError,
    ClientError,
    ConnectionFailedError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    ProblemError,
    RateLimitedError,
    ServerError,
    UnavailableError,
    UnexpectedResponseError,
)
from commonbrain_client.generated import models
from commonbrain_client.generated.types import UNSET, File, Unset

__all__ = [
    "UNSET",
    "AuthenticationError",
    "ClientError",
    "CommonbrainClient",
    "ConnectionFailedError",
    "File",
    "InvalidRequestError",
    "NotFoundError",
    "PermissionDeniedError",
    "ProblemError",
    "RateLimitedError",
    "ServerError",
    "UnavailableError",
    "UnexpectedResponseError",
    "Unset",
    "models",
]
