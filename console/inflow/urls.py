from __future__ import annotations

from django.urls import path

from console.inflow import views

# /inflow/ and the wizard
urlpatterns = [
    path("inflow/", views.task_list, name="inflow.list"),
    path("create-inflow/", views.task_create, name="inflow.create"),
    path("inflow-journey", views.journey, name="inflow.journey"),
]
# /inflow/<name>/
urlpatterns += [
    path("inflow/<str:name>/", views.task_detail, name="inflow.detail"),
    path("inflow/<str:name>/live", views.task_live, name="inflow.live"),
    path("inflow/<str:name>/edit/", views.task_update, name="inflow.update"),
    path("inflow/<str:name>/statistics/", views.task_statistics, name="inflow.statistics"),
    path("inflow/<str:name>/log/", views.task_log, name="inflow.log"),
    path("inflow/<str:name>/versions/", views.task_versions, name="inflow.versions"),
    path("inflow/<str:name>/versions/<int:number>/", views.task_version, name="inflow.version"),
    path("inflow/<str:name>/webhook/", views.task_webhook, name="inflow.webhook"),
    path("inflow/<str:name>/enable/", views.task_enable, name="inflow.enable"),
    path("inflow/<str:name>/pause/", views.task_pause, name="inflow.pause"),
    path("inflow/<str:name>/delete/", views.task_delete, name="inflow.delete"),
]
