from __future__ import annotations

from django.urls import path

from console.archive import views

# /i/<instance_id>/topics/<name>/archive/
urlpatterns = [
    path("i/<str:instance_id>/topics/<str:name>/archive/", views.topic, name="archive.topic"),
    path("i/<str:instance_id>/topics/<str:name>/archive/state", views.state, name="archive.state"),
    path("i/<str:instance_id>/topics/<str:name>/archive/start", views.start, name="archive.start"),
]
# /archives/
urlpatterns += [
    path("archives/", views.index, name="archive.index"),
    path("archives/<int:number>/hourly", views.hourly, name="archive.hourly"),
    path("archives/<int:number>/delete/", views.delete, name="archive.delete"),
]
