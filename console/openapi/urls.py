from __future__ import annotations

from django.urls import include, path

from console.openapi import views
from console.openapi.rpc import views as rpc

urlpatterns = [
    path("", include("console.openapi.tool.urls")),
    path("json/<path:path>", views.call, name="openapi.call"),
    path("rpc/", rpc.call, name="openapi.rpc"),
]
