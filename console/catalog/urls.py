"""Pages of the lake. The audit trail calls refused attempts by these names, beside `sql.bucket.create` and others."""

from __future__ import annotations

from django.urls import path

from console.catalog import views

# /sql/lake/
urlpatterns = [
    path("sql/lake/", views.index, name="sql.buckets"),
    path("sql/lake/create", views.create, name="sql.bucket_create"),
    path("sql/lake/<str:name>/", views.bucket, name="sql.bucket"),
    path("sql/lake/<str:name>/delete", views.delete, name="sql.bucket_delete"),
    path("sql/lake/<str:name>/upload", views.upload, name="sql.bucket_upload"),
    path("sql/lake/<str:name>/rules", views.rules, name="sql.bucket_rules"),
    path("sql/lake/<str:name>/rules/<str:rule>/delete", views.delete_rule, name="sql.bucket_rule_delete"),
    path("sql/lake/<str:name>/rules/<str:rule>/again", views.send_again, name="sql.bucket_rule_again"),
    path("sql/lake/<str:name>/table", views.table, name="sql.bucket_table"),
    path("sql/lake/<str:name>/file/<path:key>", views.download, name="sql.bucket_file"),
    path("sql/lake/<str:name>/delete/<path:key>", views.delete_file, name="sql.bucket_file_delete"),
]
