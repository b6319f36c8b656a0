"""Who may see the page: on this machine everybody who can log in to it, from elsewhere those who know the token.

The token comes in the address once, and then in a cookie; it is compared in constant time.  A websocket is opened only
for a page that came from this server, so that no other page in the same browser can read the data.
"""

import hmac
import ipaddress
import secrets
from typing import Any

from bokeh.server.auth_provider import AuthProvider
from tornado.web import HTTPError, RequestHandler

COOKIE = "probsysid_token"

REFUSED = """<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>probsysid</title><p style="font: 18px sans-serif; margin: 2em">This page needs its token:
open the address that the command has printed, which ends in <code>?token=...</code>"""


def is_loopback(address: str) -> bool:
    """Whether an address is this machine alone."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(24)


class Refusal(RequestHandler):
    """What is seen without the token."""

    def get(self) -> None:
        self.set_status(403)
        self.finish(REFUSED)


class TokenAccess(AuthProvider):
    """Lets in who brings the token."""

    def __init__(self, token: str):
        self._token = token
        super().__init__()

    @property
    def get_user(self) -> None:
        return None

    @property
    def get_user_async(self) -> Any:
        return self._user

    @property
    def login_url(self) -> str:
        return "/refused"

    @property
    def get_login_url(self) -> None:
        return None

    @property
    def login_handler(self) -> type[RequestHandler]:
        return Refusal

    @property
    def logout_url(self) -> None:
        return None

    @property
    def logout_handler(self) -> None:
        return None

    async def _user(self, handler: Any) -> str | None:
        """Asked before a websocket is opened; a synchronous one would be asked only afterwards."""
        given = handler.get_argument("token", None) or handler.get_cookie(COOKIE) or ""
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            if handler.request.headers.get("Upgrade") is not None:  # a websocket cannot be sent elsewhere
                raise HTTPError(403)
            return None
        if handler.get_cookie(COOKIE) != self._token and handler.request.headers.get("Upgrade") is None:
            handler.set_cookie(COOKIE, self._token, httponly=True, samesite="Strict")
        return "viewer"
