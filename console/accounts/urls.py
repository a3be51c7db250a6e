from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

from console.accounts.views import keys, user_groups, user_rights, user_sign_in, users

urlpatterns: list[URLPattern | URLResolver] = [path("", include("console.accounts.sign_in_urls"))]
urlpatterns += [path("", include("console.accounts.policy_urls"))]
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
    path("users/<str:username>/policies/", user_rights.find_policies, name="accounts.user_find_policies"),
    path("users/<str:username>/policies/attach", user_rights.attach_policy, name="accounts.user_add_policies"),
    path("users/<str:username>/policies/detach", user_rights.detach_policy, name="accounts.user_detach_policy"),
    path("users/<str:username>/groups/", user_rights.find_groups, name="accounts.user_find_groups"),
    path("users/<str:username>/groups/join", user_rights.join_group, name="accounts.user_add_groups"),
    path("users/<str:username>/groups/leave", user_rights.leave_group, name="accounts.user_leave_group"),
    path("users/<str:username>/password", user_sign_in.password, name="accounts.user_password"),
    path("users/<str:username>/mfa", user_sign_in.require_mfa, name="accounts.user_mfa"),
    path("users/<str:username>/mfa/remove/", user_sign_in.remove_mfa, name="accounts.user_mfa_remove"),
    path("users/<str:username>/sign-out", user_sign_in.sign_out, name="accounts.user_sign_out"),
    path(
        "users/<str:username>/keys/<str:access_key_id>/switch", user_sign_in.switch_key, name="accounts.user_key_switch"
    ),
    path(
        "users/<str:username>/keys/<str:access_key_id>/delete/",
        user_sign_in.delete_key,
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
