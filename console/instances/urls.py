from __future__ import annotations

from django.urls import path

from console.instances import views

urlpatterns = [
    path("instances/", views.index, name="instances.list"),
    path("instances/create/", views.create, name="instances.create"),
]
# The path at which the vendor's cloud answers, too.
urlpatterns += [path("rocketmq/nsaddr4client-internet", views.name_server_address, name="instances.name_servers")]
# /i/<instance_id>/
urlpatterns += [
    path("i/<str:instance_id>/", views.detail, name="instances.detail"),
    path("i/<str:instance_id>/client/", views.client, name="instances.client"),
    path("i/<str:instance_id>/update/", views.update, name="instances.update"),
    path("i/<str:instance_id>/delete/", views.delete, name="instances.delete"),
]
