from __future__ import annotations

from django.apps import AppConfig


class FeedsConfig(AppConfig):
    name = "console.feeds"
