from __future__ import annotations

from django.urls import path

from console.jobs.views import editor, jobs, running, secrets

# /jobs/
urlpatterns = [
    path("jobs/", jobs.job_list, name="jobs.list"),
    path("create-job/", jobs.job_create, name="jobs.create"),
    path("job-names", editor.names, name="jobs.names"),
]
# /jobs/<name>/
urlpatterns += [
    path("jobs/<str:name>/", jobs.job_detail, name="jobs.detail"),
    path("jobs/<str:name>/live", jobs.job_live, name="jobs.live"),
    path("jobs/<str:name>/editor/", editor.editor, name="jobs.editor"),
    path("jobs/<str:name>/editor/text", editor.text, name="jobs.text"),
    path("jobs/<str:name>/statistics/", jobs.job_statistics, name="jobs.statistics"),
    path("jobs/<str:name>/checkpoints/", jobs.job_checkpoints, name="jobs.checkpoints"),
    path("jobs/<str:name>/savepoints/<str:key>/delete/", jobs.savepoint_delete, name="jobs.savepoint_delete"),
    path("jobs/<str:name>/log/", jobs.job_log, name="jobs.log"),
    path("jobs/<str:name>/start/", running.start, name="jobs.start"),
    path("jobs/<str:name>/stop/", running.stop, name="jobs.stop"),
    path("jobs/<str:name>/delete/", jobs.job_delete, name="jobs.delete"),
]
# /jobs/<name>/versions/
urlpatterns += [
    path("jobs/<str:name>/versions/", jobs.version_list, name="jobs.versions"),
    path("jobs/<str:name>/versions/<int:number>/", jobs.version_detail, name="jobs.version"),
]
# /job-secrets/ and /job-variables/
urlpatterns += [
    path("job-secrets/", secrets.secret_list, name="jobs.secrets"),
    path("put-job-secret/", secrets.secret_put, name="jobs.secret_put"),
    path("job-secrets/<str:name>/delete/", secrets.secret_delete, name="jobs.secret_delete"),
    path("put-job-variable/", secrets.variable_put, name="jobs.variable_put"),
    path("job-variables/<str:name>/delete/", secrets.variable_delete, name="jobs.variable_delete"),
]
