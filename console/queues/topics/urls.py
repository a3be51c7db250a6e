from __future__ import annotations

from django.urls import path

from console.queues.topics import views

# /queue-topics/
urlpatterns = [
    path("queue-topics/", views.topic_list, name="queue_topics.list"),
    path("create-queue-topic/", views.topic_create, name="queue_topics.create"),
    path("queue-topics/<str:name>/", views.topic_detail, name="queue_topics.detail"),
    path("queue-topics/<str:name>/update/", views.topic_update, name="queue_topics.update"),
    path("queue-topics/<str:name>/delete/", views.topic_delete, name="queue_topics.delete"),
    path("queue-topics/<str:name>/publish/", views.topic_publish, name="queue_topics.publish"),
    path("queue-topics/<str:name>/subscribe/", views.topic_subscribe, name="queue_topics.subscribe"),
    path(
        "queue-topics/<str:name>/subscriptions/<str:subscription>/update/",
        views.subscription_update,
        name="queue_topics.update_subscription",
    ),
    path(
        "queue-topics/<str:name>/unsubscribe/<str:subscription>/",
        views.topic_unsubscribe,
        name="queue_topics.unsubscribe",
    ),
]
