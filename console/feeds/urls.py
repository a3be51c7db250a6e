from __future__ import annotations

from django.urls import re_path

from console.feeds import views

# /hooks/, behind the token
urlpatterns = [
    re_path(r"^hooks/(?P<path>[\s\S]*)$", views.receive, name="feeds.receive"),
]
