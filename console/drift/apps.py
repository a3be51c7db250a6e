from django.apps import AppConfig


class DriftConfig(AppConfig):
    name = "console.drift"
