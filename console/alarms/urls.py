from __future__ import annotations

from django.urls import path

from console.alarms import views

# /alarms/: what fires and what did, and the rules
urlpatterns = [
    path("alarms/", views.alarm_list, name="alarms.list"),
    path("alarms/acknowledge/", views.alarm_acknowledge_many, name="alarms.acknowledge_many"),
    path("alarms/<int:number>/acknowledge", views.alarm_acknowledge, name="alarms.acknowledge"),
    path("alarms/rules/", views.rule_list, name="alarms.rules"),
    path("alarms/rules/prometheus.yml", views.rules_prometheus, name="alarms.rules_prometheus"),
    path("alarms/rules/create/", views.rule_create, name="alarms.rule_create"),
    path("alarms/rules/<int:number>/", views.rule_detail, name="alarms.rule"),
    path("alarms/rules/<int:number>/curve", views.rule_curve, name="alarms.rule_curve"),
    path("alarms/rules/<int:number>/update/", views.rule_update, name="alarms.rule_update"),
    path("alarms/rules/<int:number>/enable", views.rule_enable, name="alarms.rule_enable"),
    path("alarms/rules/<int:number>/delete/", views.rule_delete, name="alarms.rule_delete"),
]
# /alarms/recipients/: who is told
urlpatterns += [
    path("alarms/recipients/", views.recipient_list, name="alarms.recipients"),
    path("alarms/recipients/create/", views.recipient_create, name="alarms.recipient_create"),
    path("alarms/recipients/<int:number>/update/", views.recipient_update, name="alarms.recipient_update"),
    path("alarms/recipients/<int:number>/test", views.recipient_test, name="alarms.recipient_test"),
    path("alarms/recipients/<int:number>/delete/", views.recipient_delete, name="alarms.recipient_delete"),
]
