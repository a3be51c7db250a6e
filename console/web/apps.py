from django.apps import AppConfig


class WebConfig(AppConfig):
    name = "console.web"

    def ready(self) -> None:
        from console.web import (
            checks,  # noqa: F401 - registers itself
            postgresql,
        )

        postgresql.register()
