from __future__ import annotations

from django.urls import path

from console.platform import views

# /platform/accounts/
urlpatterns = [
    path("platform/accounts/", views.accounts, name="platform.accounts"),
    path("platform/accounts/create/", views.account_create, name="platform.account_create"),
    path("platform/accounts/<str:name>/", views.account, name="platform.account"),
    path("platform/accounts/<str:name>/switch/", views.account_switch, name="platform.account_switch"),
    path("platform/accounts/<str:name>/limits/", views.account_limits, name="platform.account_limits"),
    path("platform/accounts/<str:name>/reset/", views.account_reset, name="platform.account_reset"),
]
# /platform/organizations/ and their resource sets
urlpatterns += [
    path("platform/organizations/", views.organizations, name="platform.organizations"),
    path("platform/organizations/create/", views.organization_create, name="platform.organization_create"),
    path("platform/organizations/<int:number>/", views.organization, name="platform.organization"),
    path("platform/organizations/<int:number>/delete/", views.organization_delete, name="platform.organization_delete"),
    path("platform/organizations/<int:number>/sets/", views.resource_set_create, name="platform.resource_set_create"),
    path("platform/sets/<int:number>/", views.resource_set, name="platform.resource_set"),
    path("platform/sets/<int:number>/delete/", views.resource_set_delete, name="platform.resource_set_delete"),
]
# The "Management AccessKey" of a level-1 organization
urlpatterns += [
    path("platform/organizations/<int:number>/keys/", views.organization_keys, name="platform.organization_keys"),
    path(
        "platform/keys/<str:access_key_id>/switch/",
        views.organization_key_switch,
        name="platform.organization_key_switch",
    ),
    path(
        "platform/keys/<str:access_key_id>/delete/",
        views.organization_key_delete,
        name="platform.organization_key_delete",
    ),
]
urlpatterns += [path("platform/settings/", views.settings_page, name="platform.settings")]
