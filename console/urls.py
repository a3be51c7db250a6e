"""The URL map, read like a table of contents. Every path under /i/<instance_id>/ works on the chosen instance."""

from django.contrib.auth.decorators import login_not_required
from django.urls import include, path
from django.views.i18n import set_language

from console.web.views import choose_columns, health, live

urlpatterns = [
    path("healthz", health, name="health"),
    path("live", live, name="live"),
    path("columns/", choose_columns, name="columns"),
    path("language/", login_not_required(set_language), name="language"),
    path("", include("console.overview.urls")),
    path("", include("console.instances.urls")),
    path("", include("console.accounts.urls")),
    path("", include("console.rights.urls")),
    path("", include("console.topics.urls")),
    path("", include("console.drift.urls")),
    path("", include("console.adoption.urls")),
    path("", include("console.cluster.urls")),
    path("", include("console.messaging.urls")),
    path("", include("console.metrics.urls")),
    path("", include("console.queues.urls")),
    path("", include("console.queues.topics.urls")),
    path("", include("console.catalog.urls")),
    path("", include("console.sql.urls")),
    path("", include("console.jobs.urls")),
    path("", include("console.feeds.urls")),
    path("", include("console.tracking.urls")),
    path("", include("console.inflow.urls")),
    path("", include("console.alarms.urls")),
    path("", include("console.archive.urls")),
    path("", include("console.audit.pages.urls")),
    path("", include("console.platform.urls")),
    path("", include("console.openapi.urls")),
    path("", include("console.manual.urls")),
]

handler400 = "console.web.views.bad_request"
handler403 = "console.web.views.forbidden"
handler404 = "console.web.views.not_found"
handler500 = "console.web.views.failed"
