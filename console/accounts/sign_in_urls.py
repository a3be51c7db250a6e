"""Signing in. Of django-allauth only what is used: there is no registration, no mail, no linking of identities."""

from __future__ import annotations

from allauth.account import views as account
from allauth.mfa.base import views as mfa
from allauth.mfa.recovery_codes import views as recovery_codes
from allauth.mfa.totp import views as totp
from allauth.mfa.webauthn import views as webauthn
from django.urls import path

from console.accounts.views import security, single_sign_on

# /account/: the password
urlpatterns = [
    path("account/login/", account.login, name="account_login"),
    path("account/logout/", account.logout, name="account_logout"),
    path("account/password/", account.password_change, name="account_change_password"),
    path("account/reauthenticate/", account.reauthenticate, name="account_reauthenticate"),
    path("account/inactive/", account.account_inactive, name="account_inactive"),
]
# /account/mfa/: the second factor
urlpatterns += [
    path("account/mfa/", security.to_index, name="mfa_index"),
    path("account/mfa/authenticate/", mfa.authenticate, name="mfa_authenticate"),
    path("account/mfa/reauthenticate/", mfa.reauthenticate, name="mfa_reauthenticate"),
    path("account/mfa/app/bind/", totp.activate_totp, name="mfa_activate_totp"),
    path("account/mfa/app/remove/", totp.deactivate_totp, name="mfa_deactivate_totp"),
    path("account/mfa/codes/", recovery_codes.view_recovery_codes, name="mfa_view_recovery_codes"),
    path("account/mfa/codes/new/", recovery_codes.generate_recovery_codes, name="mfa_generate_recovery_codes"),
    path("account/mfa/keys/", security.to_index, name="mfa_list_webauthn"),
    path("account/mfa/keys/add/", webauthn.add_webauthn, name="mfa_add_webauthn"),
    path("account/mfa/keys/reauthenticate/", webauthn.reauthenticate_webauthn, name="mfa_reauthenticate_webauthn"),
    path("account/mfa/keys/<int:pk>/rename/", webauthn.edit_webauthn, name="mfa_edit_webauthn"),
    path("account/mfa/keys/<int:pk>/remove/", security.remove_key, name="mfa_remove_webauthn"),
]
# /security/: the visitor's own sign-in
urlpatterns += [
    path("security/", security.index, name="accounts.security"),
    path("security/sessions/end-all", security.end_all, name="accounts.security_end_all"),
    path("security/sessions/<int:number>/end", security.end_session, name="accounts.security_end"),
]
# /login/: by the provider of an account
urlpatterns += [
    path("login/", single_sign_on.choose, name="accounts.single_sign_on_choose"),
    path("login/<slug:account>/", single_sign_on.start, name="accounts.single_sign_on_start"),
    path("login/<slug:account>/callback", single_sign_on.callback, name="accounts.single_sign_on_callback"),
]
# /single-sign-on/: the account's provider
urlpatterns += [
    path("single-sign-on/", single_sign_on.index, name="accounts.single_sign_on"),
    path("single-sign-on/test", single_sign_on.test, name="accounts.single_sign_on_test"),
    path("single-sign-on/delete/", single_sign_on.delete, name="accounts.single_sign_on_delete"),
]
