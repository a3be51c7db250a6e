"""Signing in, and the pages of an account. Of django-allauth only what is used: no registration, no mail, no linking of
identities.
"""

from __future__ import annotations

from allauth.account import views as account
from allauth.mfa.base import views as mfa
from allauth.mfa.recovery_codes import views as recovery_codes
from allauth.mfa.totp import views as totp
from allauth.mfa.webauthn import views as webauthn
from django.urls import path

from console.accounts.views import keys, policies, roles, saved_views, security, single_sign_on, user_groups, users

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
# /views/: what people keep of lists
urlpatterns += [
    path("views/keep", saved_views.keep, name="accounts.saved_view_keep"),
    path("views/<str:name>/", saved_views.index, name="accounts.saved_views"),
    path("views/<str:name>/<int:number>", saved_views.change, name="accounts.saved_view_change"),
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
# /policies/, /policy/<name>/
urlpatterns += [
    path("policies/", policies.index, name="accounts.policies"),
    path("policies/create/", policies.create, name="accounts.policy_create"),
    path("policies/check", policies.check, name="accounts.policy_check"),
    path("policy/<str:name>/", policies.detail, name="accounts.policy"),
    path("policy/<str:name>/delete/", policies.delete, name="accounts.policy_delete"),
]
# /roles/, /role/<name>/
urlpatterns += [
    path("roles/", roles.index, name="accounts.roles"),
    path("roles/create/", roles.create, name="accounts.role_create"),
    path("roles/assume/", roles.assume, name="accounts.role_assume"),
    path("role/<str:name>/", roles.detail, name="accounts.role"),
    path("role/<str:name>/delete/", roles.delete, name="accounts.role_delete"),
    path("role/<str:name>/policies/", roles.find_policies, name="accounts.role_find_policies"),
    path("role/<str:name>/policies/attach", roles.attach_policy, name="accounts.role_add_policies"),
    path("role/<str:name>/policies/detach", roles.detach_policy, name="accounts.role_detach_policy"),
    path("role/<str:name>/sessions/end", roles.end_sessions, name="accounts.role_end_sessions"),
]
# /keys/: the visitor's own AccessKeys
urlpatterns += [
    path("keys/", keys.index, name="accounts.keys"),
    path("keys/create/", keys.create, name="accounts.key_create"),
    path("keys/database-password", keys.renew_database_password, name="accounts.key_database"),
    path("keys/database-password/delete", keys.delete_database_account, name="accounts.key_database_delete"),
    path("keys/<str:access_key_id>/switch", keys.switch, name="accounts.key_switch"),
    path("keys/<str:access_key_id>/delete/", keys.delete, name="accounts.key_delete"),
]
# /users/
urlpatterns += [
    path("users/", users.index, name="accounts.users"),
    path("users/create/", users.create, name="accounts.user_create"),
    path("users/<str:username>/", users.detail, name="accounts.user"),
    path("users/<str:username>/update/", users.update, name="accounts.user_update"),
    path("users/<str:username>/switch", users.switch, name="accounts.user_switch"),
    path("users/<str:username>/delete/", users.delete, name="accounts.user_delete"),
    path("users/<str:username>/policies/", users.find_policies, name="accounts.user_find_policies"),
    path("users/<str:username>/policies/attach", users.attach_policy, name="accounts.user_add_policies"),
    path("users/<str:username>/policies/detach", users.detach_policy, name="accounts.user_detach_policy"),
    path("users/<str:username>/groups/", users.find_groups, name="accounts.user_find_groups"),
    path("users/<str:username>/groups/join", users.join_group, name="accounts.user_add_groups"),
    path("users/<str:username>/groups/leave", users.leave_group, name="accounts.user_leave_group"),
    path("users/<str:username>/password", users.password, name="accounts.user_password"),
    path("users/<str:username>/mfa", users.require_mfa, name="accounts.user_mfa"),
    path("users/<str:username>/mfa/remove/", users.remove_mfa, name="accounts.user_mfa_remove"),
    path("users/<str:username>/sign-out", users.sign_out, name="accounts.user_sign_out"),
    path("users/<str:username>/keys/<str:access_key_id>/switch", users.switch_key, name="accounts.user_key_switch"),
    path(
        "users/<str:username>/keys/<str:access_key_id>/delete/",
        users.delete_key,
        name="accounts.user_key_delete",
    ),
]
# /user-groups/; a group may be named create
urlpatterns += [
    path("user-groups/", user_groups.index, name="accounts.groups"),
    path("create-user-group/", user_groups.create, name="accounts.group_create"),
    path("user-groups/<str:name>/", user_groups.detail, name="accounts.group"),
    path("user-groups/<str:name>/update/", user_groups.update, name="accounts.group_update"),
    path("user-groups/<str:name>/delete/", user_groups.delete, name="accounts.group_delete"),
    path("user-groups/<str:name>/users/", user_groups.find_users, name="accounts.group_find_users"),
    path("user-groups/<str:name>/users/add", user_groups.add_user, name="accounts.group_add_users"),
    path("user-groups/<str:name>/users/remove", user_groups.remove_user, name="accounts.group_remove_user"),
    path("user-groups/<str:name>/policies/", user_groups.find_policies, name="accounts.group_find_policies"),
    path("user-groups/<str:name>/policies/attach", user_groups.attach_policy, name="accounts.group_add_policies"),
    path("user-groups/<str:name>/policies/detach", user_groups.detach_policy, name="accounts.group_detach_policy"),
]
