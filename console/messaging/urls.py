from __future__ import annotations

from django.urls import path

from console.messaging import views

# /i/<instance_id>/
urlpatterns = [
    path("i/<str:instance_id>/messages/", views.search, name="messaging.search"),
    path("i/<str:instance_id>/dead-letters/", views.dead_letter_index, name="messaging.dead_letter_index"),
]
# /i/<instance_id>/topics/<name>/
urlpatterns += [
    path("i/<str:instance_id>/topics/<str:name>/publish/", views.publish, name="messaging.publish"),
    path("i/<str:instance_id>/topics/<str:name>/messages/<str:message_id>/", views.message, name="messaging.message"),
    path("i/<str:instance_id>/topics/<str:name>/messages/<str:message_id>/body", views.body, name="messaging.body"),
    path(
        "i/<str:instance_id>/topics/<str:name>/messages/<str:message_id>/track",
        views.track,
        name="messaging.track",
    ),
]
# /i/<instance_id>/groups/<group_id>/
urlpatterns += [
    path("i/<str:instance_id>/groups/<str:group_id>/", views.status, name="messaging.status"),
    path("i/<str:instance_id>/groups/<str:group_id>/clients", views.clients, name="messaging.clients"),
    path("i/<str:instance_id>/groups/<str:group_id>/stack", views.stack, name="messaging.stack"),
    path("i/<str:instance_id>/groups/<str:group_id>/reset/", views.reset, name="messaging.reset"),
    path(
        "i/<str:instance_id>/groups/<str:group_id>/dead-letters/", views.dead_letter_list, name="messaging.dead_letters"
    ),
    path(
        "i/<str:instance_id>/groups/<str:group_id>/dead-letters/resend",
        views.resend,
        name="messaging.resend",
    ),
    path(
        "i/<str:instance_id>/groups/<str:group_id>/dead-letters/<str:reference>/",
        views.dead_letter,
        name="messaging.dead_letter",
    ),
]
