from __future__ import annotations

from django.urls import path

from console.rights import views

urlpatterns = [
    path("policies/simulator/", views.index, name="accounts.simulator"),
    path("policies/simulator/names", views.names, name="accounts.simulator_names"),
]
