from __future__ import annotations

from django.urls import path

from console.tracking import views

# /tracking/
urlpatterns = [
    path("tracking/", views.task_list, name="tracking.list"),
    path("create-tracking-task/", views.task_create, name="tracking.create"),
    path("test-tracking-task/", views.task_try, name="tracking.try"),
]
# /tracking/<task ID>/
urlpatterns += [
    path("tracking/<str:task_id>/", views.task_detail, name="tracking.detail"),
    path("tracking/<str:task_id>/live", views.task_live, name="tracking.live"),
    path("tracking/<str:task_id>/events/", views.task_events, name="tracking.events"),
    path("tracking/<str:task_id>/update/", views.task_update, name="tracking.update"),
    path("tracking/<str:task_id>/test/", views.task_test, name="tracking.test"),
    path("tracking/<str:task_id>/pause/", views.task_pause, name="tracking.pause"),
    path("tracking/<str:task_id>/resume/", views.task_resume, name="tracking.resume"),
    path("tracking/<str:task_id>/delete/", views.task_delete, name="tracking.delete"),
]
# /tracking/<task ID>/groups/
urlpatterns += [
    path("tracking/<str:task_id>/create-group/", views.group_create, name="tracking.group_create"),
    path("tracking/<str:task_id>/groups/<str:name>/delete/", views.group_delete, name="tracking.group_delete"),
]
