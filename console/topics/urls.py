from __future__ import annotations

from django.urls import path

from console.topics import views

# /i/<instance_id>/
urlpatterns = [
    path("i/<str:instance_id>/topics/", views.topic_list, name="topics.list"),
    path("i/<str:instance_id>/create-topic/", views.topic_create, name="topics.create"),
    path("i/<str:instance_id>/groups/", views.group_list, name="groups.list"),
    path("i/<str:instance_id>/create-group/", views.group_create, name="groups.create"),
    path("i/<str:instance_id>/delete-topics/", views.topic_delete_many, name="topics.delete_many"),
    path("i/<str:instance_id>/set-modes/", views.topic_mode_many, name="topics.mode_many"),
    path("i/<str:instance_id>/export-topics", views.topic_export_many, name="topics.export_many"),
    path("i/<str:instance_id>/delete-groups/", views.group_delete_many, name="groups.delete_many"),
    path("i/<str:instance_id>/export-groups", views.group_export_many, name="groups.export_many"),
]
# /i/<instance_id>/topics/<name>/
urlpatterns += [
    path("i/<str:instance_id>/topics/<str:name>/", views.topic_detail, name="topics.detail"),
    path("i/<str:instance_id>/topics/<str:name>/live", views.topic_live, name="topics.live"),
    path("i/<str:instance_id>/topics/<str:name>/mode", views.topic_mode, name="topics.mode"),
    path("i/<str:instance_id>/topics/<str:name>/delete/", views.topic_delete, name="topics.delete"),
]
# /i/<instance_id>/groups/<group_id>/
urlpatterns += [
    path("i/<str:instance_id>/groups/<str:group_id>/settings/", views.group_detail, name="groups.detail"),
    path("i/<str:instance_id>/groups/<str:group_id>/reading", views.group_reading, name="groups.reading"),
    path("i/<str:instance_id>/groups/<str:group_id>/order", views.group_order, name="groups.order"),
    path("i/<str:instance_id>/groups/<str:group_id>/delete/", views.group_delete, name="groups.delete"),
    path("i/<str:instance_id>/groups/<str:group_id>/sharing", views.group_sharing, name="groups.sharing"),
]
# /grants/: topics shared between accounts
urlpatterns += [
    path("grants/", views.grants_index, name="grants.index"),
    path("i/<str:instance_id>/topics/<str:name>/grants/", views.grants_topic, name="grants.topic"),
    path("i/<str:instance_id>/topics/<str:name>/grants/<int:number>/", views.grants_revoke, name="grants.revoke"),
    path("grants/<str:instance_id>/<str:name>/client/", views.grants_client, name="grants.client"),
    path("grants/<str:instance_id>/<str:name>/groups/", views.grants_groups, name="grants.groups"),
    path("grants/<str:instance_id>/<str:name>/groups/create/", views.grants_group_create, name="grants.group_create"),
]
