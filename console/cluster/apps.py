from django.apps import AppConfig


class ClusterConfig(AppConfig):
    name = "console.cluster"
