from __future__ import annotations

from django.urls import path

from console.sql import views

# /sql/
urlpatterns = [
    path("sql/", views.editor, name="sql.editor"),
    path("sql/hint", views.hint, name="sql.hint"),
]
# /sql/tasks/
urlpatterns += [
    path("sql/tasks/", views.tasks, name="sql.tasks"),
    path("sql/tasks/<str:task_id>/", views.task, name="sql.task"),
    path("sql/tasks/<str:task_id>/state", views.state, name="sql.state"),
    path("sql/tasks/<str:task_id>/cancel", views.cancel, name="sql.cancel"),
    path("sql/tasks/<str:task_id>/result.csv", views.download, name="sql.download"),
]
