from __future__ import annotations

from django.urls import path

from console.messaging.views import dead_letters, groups, messages

# /i/<instance_id>/
urlpatterns = [
    path("i/<str:instance_id>/messages/", messages.search, name="messaging.search"),
    path("i/<str:instance_id>/dead-letters/", dead_letters.index, name="messaging.dead_letter_index"),
]
# /i/<instance_id>/topics/<name>/
urlpatterns += [
    path("i/<str:instance_id>/topics/<str:name>/publish/", messages.publish, name="messaging.publish"),
    path(
        "i/<str:instance_id>/topics/<str:name>/messages/<str:message_id>/", messages.message, name="messaging.message"
    ),
    path("i/<str:instance_id>/topics/<str:name>/messages/<str:message_id>/body", messages.body, name="messaging.body"),
    path(
        "i/<str:instance_id>/topics/<str:name>/messages/<str:message_id>/track",
        messages.track,
        name="messaging.track",
    ),
]
# /i/<instance_id>/groups/<group_id>/
urlpatterns += [
    path("i/<str:instance_id>/groups/<str:group_id>/", groups.status, name="messaging.status"),
    path("i/<str:instance_id>/groups/<str:group_id>/clients", groups.clients, name="messaging.clients"),
    path("i/<str:instance_id>/groups/<str:group_id>/stack", groups.stack, name="messaging.stack"),
    path("i/<str:instance_id>/groups/<str:group_id>/reset/", groups.reset, name="messaging.reset"),
    path(
        "i/<str:instance_id>/groups/<str:group_id>/dead-letters/", dead_letters.listing, name="messaging.dead_letters"
    ),
    path(
        "i/<str:instance_id>/groups/<str:group_id>/dead-letters/resend",
        dead_letters.resend,
        name="messaging.resend",
    ),
    path(
        "i/<str:instance_id>/groups/<str:group_id>/dead-letters/<str:reference>/",
        dead_letters.letter,
        name="messaging.dead_letter",
    ),
]
