from __future__ import annotations

from django.urls import path

from console.accounts.views import assume, policies, roles, simulator

# /policies/, /policy/<name>/
urlpatterns = [
    path("policies/", policies.index, name="accounts.policies"),
    path("policies/create/", policies.create, name="accounts.policy_create"),
    path("policies/check", policies.check, name="accounts.policy_check"),
    path("policies/simulator/", simulator.index, name="accounts.simulator"),
    path("policies/simulator/names", simulator.names, name="accounts.simulator_names"),
    path("policy/<str:name>/", policies.detail, name="accounts.policy"),
    path("policy/<str:name>/delete/", policies.delete, name="accounts.policy_delete"),
]
# /roles/, /role/<name>/
urlpatterns += [
    path("roles/", roles.index, name="accounts.roles"),
    path("roles/create/", roles.create, name="accounts.role_create"),
    path("roles/assume/", assume.assume, name="accounts.role_assume"),
    path("role/<str:name>/", roles.detail, name="accounts.role"),
    path("role/<str:name>/delete/", roles.delete, name="accounts.role_delete"),
    path("role/<str:name>/policies/", roles.find_policies, name="accounts.role_find_policies"),
    path("role/<str:name>/policies/attach", roles.attach_policy, name="accounts.role_add_policies"),
    path("role/<str:name>/policies/detach", roles.detach_policy, name="accounts.role_detach_policy"),
    path("role/<str:name>/sessions/end", roles.end_sessions, name="accounts.role_end_sessions"),
]
