from __future__ import annotations

from django.urls import path

from console.topics.views import grants, groups, topics

# /i/<instance_id>/
urlpatterns = [
    path("i/<str:instance_id>/topics/", topics.index, name="topics.list"),
    path("i/<str:instance_id>/create-topic/", topics.create, name="topics.create"),
    path("i/<str:instance_id>/groups/", groups.index, name="groups.list"),
    path("i/<str:instance_id>/create-group/", groups.create, name="groups.create"),
]
# /i/<instance_id>/topics/<name>/
urlpatterns += [
    path("i/<str:instance_id>/topics/<str:name>/", topics.detail, name="topics.detail"),
    path("i/<str:instance_id>/topics/<str:name>/live", topics.live, name="topics.live"),
    path("i/<str:instance_id>/topics/<str:name>/mode", topics.mode, name="topics.mode"),
    path("i/<str:instance_id>/topics/<str:name>/delete/", topics.delete, name="topics.delete"),
]
# /i/<instance_id>/groups/<group_id>/
urlpatterns += [
    path("i/<str:instance_id>/groups/<str:group_id>/settings/", groups.detail, name="groups.detail"),
    path("i/<str:instance_id>/groups/<str:group_id>/reading", groups.reading, name="groups.reading"),
    path("i/<str:instance_id>/groups/<str:group_id>/delete/", groups.delete, name="groups.delete"),
    path("i/<str:instance_id>/groups/<str:group_id>/sharing", groups.sharing, name="groups.sharing"),
]
# /grants/: topics shared between accounts
urlpatterns += [
    path("grants/", grants.index, name="grants.index"),
    path("i/<str:instance_id>/topics/<str:name>/grants/", grants.topic, name="grants.topic"),
    path("i/<str:instance_id>/topics/<str:name>/grants/<int:number>/", grants.revoke, name="grants.revoke"),
    path("grants/<str:instance_id>/<str:name>/client/", grants.client, name="grants.client"),
    path("grants/<str:instance_id>/<str:name>/groups/", grants.groups, name="grants.groups"),
    path("grants/<str:instance_id>/<str:name>/groups/create/", grants.group_create, name="grants.group_create"),
]
