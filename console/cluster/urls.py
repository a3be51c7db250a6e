from __future__ import annotations

from django.urls import path

from console.cluster import views

# /platform/clusters/
urlpatterns = [
    path("platform/clusters/", views.index, name="platform.clusters"),
    path("platform/clusters/add/", views.add, name="platform.cluster_add"),
    path("platform/clusters/<int:number>/", views.detail, name="platform.cluster"),
    path("platform/clusters/<int:number>/health/", views.health, name="platform.cluster_health"),
    path("platform/clusters/<int:number>/edit/", views.edit, name="platform.cluster_edit"),
    path("platform/clusters/<int:number>/test/", views.test, name="platform.cluster_test"),
    path("platform/clusters/<int:number>/remove/", views.remove, name="platform.cluster_remove"),
    path("platform/clusters/<int:number>/synchronise/", views.synchronise, name="platform.cluster_synchronise"),
]
