from __future__ import annotations

from django.urls import path

from console.cluster import views

urlpatterns = [
    path("platform/cluster/", views.index, name="platform.cluster"),
    path("platform/cluster/synchronise", views.synchronise, name="platform.cluster_synchronise"),
]
