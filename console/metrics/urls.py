from __future__ import annotations

from django.urls import path

from console.metrics import views

# /i/<instance_id>/
urlpatterns = [
    path("i/<str:instance_id>/statistics/", views.index, name="metrics.index"),
    path("i/<str:instance_id>/topics/<str:name>/statistics/", views.topic, name="metrics.topic"),
    path("i/<str:instance_id>/groups/<str:group_id>/statistics/", views.group, name="metrics.group"),
]
