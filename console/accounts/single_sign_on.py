"""Single sign-on by an account's own OpenID Connect provider, through django-allauth.

State, PKCE and the token request are django-allauth's. Ours: the provider is the account's row, a nonce, the check of
the ID token, and that a provider of one account can only ever sign in RAM users of that account
(docs/use/permissions.md).
"""

from __future__ import annotations

import secrets
from typing import Any

from allauth.account.internal.flows.login import perform_login, record_authentication
from allauth.account.models import Login
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialApp, SocialToken
from allauth.socialaccount.providers.base.constants import AuthProcess
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _

from console.accounts import crypto, oidc
from console.accounts.models import SingleSignOn
from console.accounts.outgoing_requests import GuardedSession
from console.accounts.services import single_sign_on as services
from console.web.returning import way_back

_SETTING = "single_sign_on"


class SingleSignOnAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """An account's name is the provider's id; there is no other provider."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        return False

    def get_requests_session(self) -> GuardedSession:
        return GuardedSession()

    def get_provider(self, request: HttpRequest, provider: str, client_id: str | None = None) -> AccountProvider:
        """Raises SocialApp.DoesNotExist when the account has no single sign-on, or has it switched off."""
        row = services.find(provider)
        if row is None:
            raise SocialApp.DoesNotExist
        app = SocialApp(
            provider=OpenIDConnectProvider.id,
            provider_id=row.tenant.name,
            name=row.tenant.name,
            client_id=row.client_id,
            secret=crypto.decrypt(row.client_secret_encrypted) if row.client_secret_encrypted else "",
            settings={"server_url": row.issuer, "oauth_pkce_enabled": True, _SETTING: row},
        )
        return AccountProvider(request, app=app)

    def on_authentication_error(self, request: HttpRequest, provider: Any, **details: Any) -> None:
        """A sign-in that ended at the provider, or came back without having begun here."""
        reason = _("it was cancelled there") if str(details.get("error")) == "cancelled" else _("it did not start here")
        if details.get("exception") is not None:
            reason = _("it issues no tokens for this console")
        raise ImmediateHttpResponse(
            refused(request, provider.app.settings[_SETTING], _("The sign-in failed: %(reason)s.") % {"reason": reason})
        )


class AccountOAuth2Adapter(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]
    """The exchange with the provider of one account."""

    state: dict[str, Any]

    @property
    def openid_config(self) -> dict[str, Any]:
        if not hasattr(self, "_openid_config"):
            self._openid_config = oidc.discover(self.row.issuer)
        return self._openid_config

    @property
    def row(self) -> SingleSignOn:
        """The configuration. Raises SocialApp.DoesNotExist."""
        row: SingleSignOn = self.get_provider().app.settings[_SETTING]
        return row

    def get_access_token_data(self, request: HttpRequest, app: SocialApp, client: Any, pkce_code_verifier: Any) -> Any:
        """The code goes to nobody but who gave it."""
        oidc.check_answer(request.GET.get("iss"), document=self.openid_config)
        try:
            data = super().get_access_token_data(request, app, client, pkce_code_verifier)
        except oidc.UNREADABLE as error:
            raise oidc.SignInError(_("The provider's tokens cannot be read.")) from error
        return data

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:
        return callback_url(request, self.provider_id)

    def complete_login(self, request: HttpRequest, app: SocialApp, token: SocialToken, **answer: Any) -> None:
        """Always ends in an ImmediateHttpResponse: identities are not stored, the claim is looked up each time."""
        row = self.row
        id_token = str(answer["response"].get("id_token", ""))
        claims = oidc.check_id_token(
            id_token, document=self.openid_config, client_id=row.client_id, nonce=str(self.state.get("nonce", ""))
        )
        if row.user_claim not in claims:
            claims = oidc.user_info(self.openid_config, token.token, claims["sub"]) | claims
        user = services.user_of(row, claims.get(row.user_claim), request)
        record_authentication(request, user, "single sign-on", provider=row.tenant.name)
        login = Login(user=user, redirect_url=_local(request, self.state.get("next")))
        raise ImmediateHttpResponse(perform_login(request, login))


class AccountProvider(OpenIDConnectProvider):  # type: ignore[misc]
    """The provider of one account."""

    oauth2_adapter_class = AccountOAuth2Adapter

    def authorization_url(self, request: HttpRequest, following: str) -> str:
        """Where the browser is sent. The state, kept in the session, is good once. Raises SignInError."""
        nonce = secrets.token_urlsafe(32)
        response = self.redirect(
            request,
            AuthProcess.LOGIN,
            next_url=_local(request, following),
            data={},
            auth_params={"nonce": nonce},
            nonce=nonce,
        )
        url: str = response["Location"]
        return url


class _CallbackView(OAuth2CallbackView):  # type: ignore[misc]
    """Hands the state, with its nonce, to the adapter."""

    def _get_state(self, request: HttpRequest, provider: Any) -> tuple[dict[str, Any] | None, HttpResponse | None]:
        state, response = super()._get_state(request, provider)
        self.adapter.state = state or {}
        return state, response


def provider_of(request: HttpRequest, account: str) -> AccountProvider:
    """The provider of an account. Raises SocialApp.DoesNotExist."""
    return SingleSignOnAdapter().get_provider(request, account)


def answer(request: HttpRequest, account: str) -> HttpResponse:
    """What the browser that comes back from the provider gets. Raises SocialApp.DoesNotExist."""
    row: SingleSignOn = provider_of(request, account).app.settings[_SETTING]
    view = _CallbackView.adapter_view(AccountOAuth2Adapter(request, account))
    try:
        response: HttpResponse = view(request)
    except oidc.SignInError as error:
        return refused(request, row, error.args[0])  # str() of it would lose its English
    return response


def refused(request: HttpRequest, row: SingleSignOn, reason: str) -> HttpResponse:
    """The page that says why, after the attempt is on record."""
    services.record_refusal(row, request, reason)
    context = {"account": row.tenant.name, "reason": reason}
    return render(request, "socialaccount/authentication_error.html", context, status=403)


def callback_url(request: HttpRequest, account: str) -> str:
    """The address to register at the provider."""
    return request.build_absolute_uri(reverse("accounts.single_sign_on_callback", args=[account]))


def _local(request: HttpRequest, url: Any) -> str | None:
    return way_back(request, str(url)) if url else None
