from __future__ import annotations

from django.apps import AppConfig


class ManualConfig(AppConfig):
    name = "console.manual"
