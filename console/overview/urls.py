from __future__ import annotations

from django.urls import path

from console.overview import views

urlpatterns = [
    path("", views.overview, name="instances.overview"),
    path("go", views.go, name="go"),
    path("i/<str:instance_id>/first-steps", views.instance_first_steps, name="instances.first_steps"),
    path("overview/figures", views.overview_figures, name="instances.overview_figures"),
    path("overview/backlogs", views.overview_backlogs, name="instances.overview_backlogs"),
    path("overview/history", views.overview_history, name="instances.overview_history"),
    path("overview/attention", views.overview_attention, name="instances.overview_attention"),
    path("overview/capacity", views.overview_capacity, name="instances.overview_capacity"),
    path("overview/storage", views.overview_storage, name="instances.overview_storage"),
    path("overview/limits", views.overview_limits, name="instances.overview_limits"),
    path("overview/tasks", views.overview_tasks, name="instances.overview_tasks"),
]
