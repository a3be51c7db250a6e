from __future__ import annotations

from django.urls import path

from console.queues import views

# /queues/
urlpatterns = [
    path("queues/", views.queue_list, name="queues.list"),
    path("create-queue/", views.queue_create, name="queues.create"),
]
# /queues/<name>/
urlpatterns += [
    path("queues/<str:name>/", views.queue_detail, name="queues.detail"),
    path("queues/<str:name>/live", views.queue_live, name="queues.live"),
    path("queues/<str:name>/subscriptions", views.queue_subscriptions, name="queues.subscriptions"),
    path("queues/<str:name>/statistics/", views.queue_statistics, name="queues.statistics"),
    path("queues/<str:name>/update/", views.queue_update, name="queues.update"),
    path("queues/<str:name>/delete/", views.queue_delete, name="queues.delete"),
]
# /queues/<name>/messages/
urlpatterns += [
    path("queues/<str:name>/send/", views.message_send, name="queues.send"),
    path("queues/<str:name>/messages/", views.messages_peek, name="queues.messages"),
    path("queues/<str:name>/messages/receive", views.messages_receive, name="queues.receive"),
    path("queues/<str:name>/messages/hide", views.message_hide, name="queues.message_hide"),
    path("queues/<str:name>/messages/delete", views.message_delete, name="queues.message_delete"),
]
