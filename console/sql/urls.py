from __future__ import annotations

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from console.sql.views import editor, helpers, lake, panes, plot, saved, tasks


class PanelConverter(StringConverter):
    """One of the left panels."""

    regex = "|".join(editor.PANELS)


class PickConverter(StringConverter):
    """One of the pick lists of the hint builder."""

    regex = "instances|topics|groups"


register_converter(PanelConverter, "panel")
register_converter(PickConverter, "pick")

# /sql/
urlpatterns = [
    path("sql/", editor.editor, name="sql.editor"),
    path("sql/run", editor.run, name="sql.run"),
    path("sql/text", editor.text, name="sql.text"),
    path("sql/names", helpers.names, name="sql.names"),
    path("sql/check", helpers.check, name="sql.check"),
    path("sql/hint", helpers.hint, name="sql.hint"),
    path("sql/pick/<pick:kind>", helpers.pick, name="sql.pick"),
    path("sql/panel/<panel:name>", panes.panel, name="sql.panel"),
    path("sql/schemas/<str:name>", helpers.schema, name="sql.schema"),
    path("sql/schemas/<str:name>/tables/<path:table>", helpers.columns, name="sql.columns"),
]
# /sql/saved/
urlpatterns += [
    path("sql/saved/", saved.save, name="sql.save"),
    path("sql/saved/<int:key>", saved.change, name="sql.saved"),
    path("sql/saved/<int:key>/delete", saved.delete, name="sql.saved_delete"),
]
# /sql/tasks/
urlpatterns += [
    path("sql/tasks/", tasks.tasks, name="sql.tasks"),
    path("sql/tasks/<str:task_id>/", tasks.task, name="sql.task"),
    path("sql/tasks/<str:task_id>/state", tasks.state, name="sql.state"),
    path("sql/tasks/<str:task_id>/pane", panes.pane, name="sql.pane"),
    path("sql/tasks/<str:task_id>/rows", panes.rows, name="sql.rows"),
    path("sql/tasks/<str:task_id>/plot", plot.plot, name="sql.plot"),
    path("sql/tasks/<str:task_id>/cancel", tasks.cancel, name="sql.cancel"),
    path("sql/tasks/<str:task_id>/again", tasks.again, name="sql.again"),
    path("sql/tasks/<str:task_id>/send-again", tasks.send_again, name="sql.send_again"),
    path("sql/tasks/<str:task_id>/result.csv", tasks.download, name="sql.download"),
]
# /sql/results/
urlpatterns += [path("sql/results/<str:token>/result.csv", tasks.fetch, name="sql.fetch")]
# /sql/lake/
urlpatterns += [
    path("sql/lake/", lake.index, name="sql.buckets"),
    path("sql/lake/create", lake.create, name="sql.bucket_create"),
    path("sql/lake/<str:name>/", lake.bucket, name="sql.bucket"),
    path("sql/lake/<str:name>/delete", lake.delete, name="sql.bucket_delete"),
    path("sql/lake/<str:name>/upload", lake.upload, name="sql.bucket_upload"),
    path("sql/lake/<str:name>/table", lake.table, name="sql.bucket_table"),
    path("sql/lake/<str:name>/file/<path:key>", lake.download, name="sql.bucket_file"),
    path("sql/lake/<str:name>/delete/<path:key>", lake.delete_file, name="sql.bucket_file_delete"),
]
