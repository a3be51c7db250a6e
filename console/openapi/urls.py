from __future__ import annotations

from django.urls import path

from console.openapi import views

urlpatterns = [path("json/<path:path>", views.call, name="openapi.call")]
