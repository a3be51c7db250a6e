from __future__ import annotations

from allauth.account import views as allauth
from django.urls import path

from console.accounts.views import keys, users

# /account/: signing in. Of django-allauth only what is used: there is no registration and no mail.
urlpatterns = [
    path("account/login/", allauth.login, name="account_login"),
    path("account/logout/", allauth.logout, name="account_logout"),
    path("account/password/", allauth.password_change, name="account_change_password"),
    path("account/reauthenticate/", allauth.reauthenticate, name="account_reauthenticate"),
    path("account/inactive/", allauth.account_inactive, name="account_inactive"),
]
# /keys/: the visitor's own AccessKeys
urlpatterns += [
    path("keys/", keys.index, name="accounts.keys"),
    path("keys/create/", keys.create, name="accounts.key_create"),
    path("keys/<str:access_key_id>/switch", keys.switch, name="accounts.key_switch"),
    path("keys/<str:access_key_id>/delete/", keys.delete, name="accounts.key_delete"),
]
# /users/
urlpatterns += [
    path("users/", users.index, name="accounts.users"),
    path("users/create/", users.create, name="accounts.user_create"),
    path("users/<str:username>/", users.detail, name="accounts.user"),
    path("users/<str:username>/switch", users.switch, name="accounts.user_switch"),
    path("users/<str:username>/password", users.password, name="accounts.user_password"),
]
