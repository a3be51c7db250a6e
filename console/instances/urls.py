from __future__ import annotations

from django.urls import path

from console.instances import views

urlpatterns = [
    path("", views.overview, name="instances.overview"),
    path("overview/figures", views.overview_figures, name="instances.overview_figures"),
    path("overview/storage", views.overview_storage, name="instances.overview_storage"),
    path("overview/limits", views.overview_limits, name="instances.overview_limits"),
    path("overview/tasks", views.overview_tasks, name="instances.overview_tasks"),
    path("instances/", views.index, name="instances.list"),
    path("instances/create/", views.create, name="instances.create"),
]
# /i/<instance_id>/
urlpatterns += [
    path("i/<str:instance_id>/", views.detail, name="instances.detail"),
    path("i/<str:instance_id>/client/", views.client, name="instances.client"),
    path("i/<str:instance_id>/update/", views.update, name="instances.update"),
    path("i/<str:instance_id>/delete/", views.delete, name="instances.delete"),
]
