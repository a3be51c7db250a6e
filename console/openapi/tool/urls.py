from __future__ import annotations

from django.urls import path

from console.openapi.tool import views

urlpatterns = [
    path("json/openapi.json", views.openapi_document, name="openapi.document"),
    path("api-tool/", views.index, name="openapi.tool"),
    path("api-tool/try/<path:path>", views.attempt, name="openapi.tool_try"),
    path("api-tool/<path:path>", views.operation, name="openapi.tool_operation"),
]
