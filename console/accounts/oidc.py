"""OpenID Connect, the parts that django-allauth leaves out: the discovery document and the ID token are checked."""

from __future__ import annotations

import hmac
from typing import Any

import jwt
from django.conf import settings
from django.utils.translation import gettext as _
from requests import RequestException

from console.accounts.outgoing_requests import GuardedSession, Unreachable, require_safe_scheme

#: Signatures that need the provider's private key: never `none`, and never a hash with the client secret.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
#: Clocks of two machines may differ so much.
LEEWAY_S = 30
#: What nonsense makes the readers of an answer raise; brackets without end are a RecursionError.
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class SignInError(Exception):
    """A sign-in by a provider that is refused. The text is for the user."""


def discover(issuer: str) -> dict[str, Any]:
    """The provider's discovery document. Raises SignInError with what is wrong with it."""
    document = _fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration", _("discovery document"))
    if str(document.get("issuer", "")).rstrip("/") != issuer.rstrip("/"):
        raise SignInError(_("The provider's discovery document names another issuer."))
    for name in _ENDPOINTS:
        try:
            require_safe_scheme(str(document.get(name, "")))
        except Unreachable as error:
            raise SignInError(
                _("The provider's discovery document has no %(name)s that can be used.") % {"name": name}
            ) from error
    return document


def check_answer(named: str | None, *, document: dict[str, Any]) -> None:
    """Hold the parameter `iss` of the answer against the issuer that was asked (RFC 9207). Raises SignInError.

    A provider that says it names itself must; another's answer is never taken to this one.
    """
    if named is None and document.get("authorization_response_iss_parameter_supported") is not True:
        return
    if named != document["issuer"]:
        raise SignInError(_("The answer comes from a different provider."))


def check_id_token(token: str, *, document: dict[str, Any], client_id: str, nonce: str) -> dict[str, Any]:
    """The claims of an ID token whose signature, issuer, audience, age and nonce are right. Raises SignInError."""
    keys = _fetch(document["jwks_uri"], _("list of keys"))
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            _key(token, keys),
            algorithms=ALGORITHMS,
            audience=client_id,
            issuer=document["issuer"],
            leeway=LEEWAY_S,
            options={"require": ["exp", "iat", "iss", "aud", "sub"]},
        )
    except jwt.PyJWTError as error:
        raise SignInError(_("The provider's ID token is not valid: %(error)s.") % {"error": error}) from error
    audience = claims["aud"]
    several = isinstance(audience, list) and len(audience) > 1
    if (several or "azp" in claims) and claims.get("azp") != client_id:
        raise SignInError(_("The provider's ID token was issued to another client."))
    if not nonce or not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
        raise SignInError(_("The provider's ID token belongs to another sign-in."))
    return claims


def user_info(document: dict[str, Any], access_token: str, subject: str) -> dict[str, Any]:
    """Further claims of the same subject. Raises SignInError."""
    endpoint = document.get("userinfo_endpoint")
    if not endpoint:
        return {}
    claims = _fetch(str(endpoint), _("user information"), {"Authorization": f"Bearer {access_token}"})
    if claims.get("sub") != subject:
        raise SignInError(_("The provider's user information is about another user."))
    return claims


def _key(token: str, keys: dict[str, Any]) -> jwt.PyJWK:
    """The key that the token names; with a single key it need not name one."""
    kid = jwt.get_unverified_header(token).get("kid")
    usable = [key for key in jwt.PyJWKSet.from_dict(keys).keys if key.public_key_use in (None, "sig")]
    for key in usable:
        if (kid is None and len(usable) == 1) or (kid is not None and key.key_id == kid):
            return key
    raise jwt.InvalidKeyError(_("it names a key that the provider does not have"))


def _fetch(url: str, what: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
    try:
        with GuardedSession() as session:
            response = session.get(url, headers=headers)
        response.raise_for_status()
        answer = response.json()
    except Unreachable as error:
        raise SignInError(*error.args) from error
    except RequestException as error:
        # One sentence for every cause: it must not tell what answers at an address inside the network.
        message = _("The provider does not return its %(what)s.") % {"what": what}
        if not settings.SSO_NETWORKS:
            message = _("%(message)s The operator of this console must allow one in a private network.") % {
                "message": message
            }
        raise SignInError(message) from error
    except RecursionError as error:
        raise SignInError(_("The provider's %(what)s cannot be read.") % {"what": what}) from error
    if not isinstance(answer, dict):
        raise SignInError(_("The provider's %(what)s is not an object.") % {"what": what})
    return answer
