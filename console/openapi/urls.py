from __future__ import annotations

from django.urls import path

from console.openapi import views
from console.openapi.mcp import views as mcp
from console.openapi.rpc import views as rpc
from console.openapi.tool import views as tool

# The document's path stands before those of the operations.
urlpatterns = [
    path("json/openapi.json", tool.openapi_document, name="openapi.document"),
    path("json/<path:path>", views.call, name="openapi.call"),
    path("rpc/", rpc.call, name="openapi.rpc"),
    path("mcp", mcp.serve, name="openapi.mcp"),
]
# /api-tool/
urlpatterns += [
    path("api-tool/", tool.index, name="openapi.tool"),
    path("api-tool/try/<path:path>", tool.attempt, name="openapi.tool_try"),
    path("api-tool/<path:path>", tool.operation, name="openapi.tool_operation"),
]
