from __future__ import annotations

from django.urls import path

from console.platform.views import accounts, keys, limits, organizations, pages

# /platform/accounts/
urlpatterns = [
    path("platform/accounts/", accounts.index, name="platform.accounts"),
    path("platform/accounts/create/", accounts.create, name="platform.account_create"),
    path("platform/accounts/<str:name>/", accounts.detail, name="platform.account"),
    path("platform/accounts/<str:name>/switch/", accounts.switch, name="platform.account_switch"),
    path("platform/accounts/<str:name>/limits/", limits.index, name="platform.account_limits"),
    path("platform/accounts/<str:name>/reset/", accounts.reset, name="platform.account_reset"),
]
# /platform/organizations/ and their resource sets
urlpatterns += [
    path("platform/organizations/", organizations.index, name="platform.organizations"),
    path("platform/organizations/create/", organizations.create, name="platform.organization_create"),
    path("platform/organizations/<int:number>/", organizations.detail, name="platform.organization"),
    path("platform/organizations/<int:number>/delete/", organizations.delete, name="platform.organization_delete"),
    path("platform/organizations/<int:number>/sets/", organizations.create_set, name="platform.resource_set_create"),
    path("platform/sets/<int:number>/", organizations.rename_set, name="platform.resource_set"),
    path("platform/sets/<int:number>/delete/", organizations.delete_set, name="platform.resource_set_delete"),
]
# The "Management AccessKey" of a level-1 organization
urlpatterns += [
    path("platform/organizations/<int:number>/keys/", keys.index, name="platform.organization_keys"),
    path("platform/keys/<str:access_key_id>/switch/", keys.switch, name="platform.organization_key_switch"),
    path("platform/keys/<str:access_key_id>/delete/", keys.delete, name="platform.organization_key_delete"),
]
urlpatterns += [path("platform/settings/", pages.settings, name="platform.settings")]
