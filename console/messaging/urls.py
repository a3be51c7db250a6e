from __future__ import annotations

from django.urls import path

from console.messaging import letter_views, live_views, views

# /i/<instance_id>/
urlpatterns = [
    path("i/<str:instance_id>/messages/", views.search, name="messaging.search"),
    path("i/<str:instance_id>/messages/topic-names", views.topic_names, name="messaging.topic_names"),
    path("i/<str:instance_id>/dead-letters/", views.dead_letter_index, name="messaging.dead_letter_index"),
    path("i/<str:instance_id>/reset-offsets/", views.reset_many, name="messaging.reset_many"),
]
# /i/<instance_id>/topics/<name>/
urlpatterns += [
    path("i/<str:instance_id>/topics/<str:name>/publish/", views.publish, name="messaging.publish"),
    path("i/<str:instance_id>/topics/<str:name>/live/", live_views.page, name="messaging.live"),
    path("i/<str:instance_id>/topics/<str:name>/live/news", live_views.news, name="messaging.live_news"),
    path("i/<str:instance_id>/topics/<str:name>/producers/", live_views.producers, name="messaging.producers"),
    path("i/<str:instance_id>/topics/<str:name>/messages/<str:message_id>/", views.message, name="messaging.message"),
    path("i/<str:instance_id>/topics/<str:name>/messages/<str:message_id>/body", views.body, name="messaging.body"),
    path(
        "i/<str:instance_id>/topics/<str:name>/messages/<str:message_id>/track",
        views.track,
        name="messaging.track",
    ),
    path(
        "i/<str:instance_id>/topics/<str:name>/messages/<str:message_id>/trace",
        views.trace,
        name="messaging.trace",
    ),
    path(
        "i/<str:instance_id>/topics/<str:name>/messages/<str:message_id>/push/<str:group_id>",
        views.push,
        name="messaging.push",
    ),
]
# /i/<instance_id>/groups/<group_id>/
urlpatterns += [
    path("i/<str:instance_id>/groups/<str:group_id>/", views.status, name="messaging.status"),
    path("i/<str:instance_id>/groups/<str:group_id>/clients", views.clients, name="messaging.clients"),
    path("i/<str:instance_id>/groups/<str:group_id>/stack", views.stack, name="messaging.stack"),
    path("i/<str:instance_id>/groups/<str:group_id>/reset/", views.reset, name="messaging.reset"),
]
# /i/<instance_id>/groups/<group_id>/dead-letters/
_LETTERS = "i/<str:instance_id>/groups/<str:group_id>/dead-letters/"
urlpatterns += [
    path(_LETTERS, letter_views.index, name="messaging.dead_letters"),
    path(f"{_LETTERS}resend", letter_views.resend, name="messaging.resend"),
    path(f"{_LETTERS}resend-all", letter_views.resend_all, name="messaging.resend_all"),
    path(f"{_LETTERS}discard", letter_views.discard, name="messaging.discard"),
    path(f"{_LETTERS}export/<str:form>", letter_views.export, name="messaging.dead_letter_export"),
    path(f"{_LETTERS}<str:reference>/", letter_views.letter, name="messaging.dead_letter"),
]
