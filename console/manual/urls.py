from __future__ import annotations

from django.urls import path

from console.manual import views

urlpatterns = [
    path("docs/", views.index, name="manual.index"),
    path("docs/<path:name>/", views.page, name="manual.page"),
]
