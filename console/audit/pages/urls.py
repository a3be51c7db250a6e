from __future__ import annotations

from django.urls import path

from console.audit.pages import views

urlpatterns = [
    path("audit/", views.index, name="audit.list"),
    path("audit/<int:number>/", views.entry, name="audit.entry"),
    path("audit/export.<str:form>", views.export, name="audit.export"),
]
# Of the whole platform
urlpatterns += [
    path("platform/audit/", views.platform_index, name="platform.audit"),
    path("platform/audit/<int:number>/", views.platform_entry, name="platform.audit_entry"),
    path("platform/audit/export.<str:form>", views.platform_export, name="platform.audit_export"),
]
