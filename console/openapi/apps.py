from django.apps import AppConfig


class OpenapiConfig(AppConfig):
    name = "console.openapi"

    def ready(self) -> None:
        # Whoever lists the operations lists all of them, whatever was imported before.
        from console.openapi import extensions, operations  # noqa: F401
