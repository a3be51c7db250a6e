from __future__ import annotations

from django.urls import path

from console.adoption import views

urlpatterns = [
    path("unowned/", views.index, name="adoption.index"),
    path("unowned/<int:cluster>/", views.unowned, name="adoption.unowned"),
    path("unowned/<int:cluster>/adopt/", views.adopt, name="adoption.adopt"),
    path("unowned/<int:cluster>/adopted/", views.adopted, name="adoption.adopted"),
    path("unowned/<int:cluster>/forget/", views.forget, name="adoption.forget"),
    path("unowned/<int:cluster>/runs/", views.runs, name="adoption.runs"),
    path("unowned/<int:cluster>/rules/", views.rules, name="adoption.rules"),
    path("unowned/<int:cluster>/name/<str:kind>/<str:name>/", views.detail, name="adoption.detail"),
    path("unowned/<int:cluster>/name/<str:kind>/<str:name>/delete/", views.delete, name="adoption.delete"),
]
# What was done, and what goes on by itself
urlpatterns += [
    path("unowned/runs/<int:number>/", views.run, name="adoption.run"),
    path("unowned/runs/<int:number>/forget/", views.undo, name="adoption.undo"),
    path("unowned/rules/<int:number>/", views.rule, name="adoption.rule"),
    path("unowned/rules/<int:number>/delete", views.rule_delete, name="adoption.rule_delete"),
]
