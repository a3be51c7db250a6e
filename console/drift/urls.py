from __future__ import annotations

from django.urls import path

from console.drift import views

urlpatterns = [
    path("drift/", views.index, name="drift.index"),
    path("drift/check", views.check, name="drift.check"),
    path("drift/mend", views.mend, name="drift.mend"),
    path("drift/<int:cluster>/<str:kind>/<str:name>/accept", views.accept, name="drift.accept"),
    path("drift/<int:cluster>/<str:kind>/<str:name>/adopt", views.adopt, name="drift.adopt"),
    path("drift/<int:cluster>/<str:kind>/<str:name>/delete/", views.delete, name="drift.delete"),
]
