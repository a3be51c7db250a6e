from django.apps import AppConfig


class OpenapiConfig(AppConfig):
    name = "console.openapi"
