from __future__ import annotations

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from console.sql.views import editor, panes, tasks


class PanelConverter(StringConverter):
    """One of the left panels."""

    regex = "|".join(editor.PANELS)


class PickConverter(StringConverter):
    """One of the pick lists of the hint builder."""

    regex = "instances|topics|groups|queues"


register_converter(PanelConverter, "panel")
register_converter(PickConverter, "pick")

# /sql/
urlpatterns = [
    path("sql/", editor.editor, name="sql.editor"),
    path("sql/run", editor.run, name="sql.run"),
    path("sql/text", editor.text, name="sql.text"),
    path("sql/names", editor.names, name="sql.names"),
    path("sql/check", editor.check, name="sql.check"),
    path("sql/hint", editor.hint, name="sql.hint"),
    path("sql/pick/<pick:kind>", editor.pick, name="sql.pick"),
    path("sql/panel/<panel:name>", panes.panel, name="sql.panel"),
    path("sql/schemas/<str:name>", editor.schema, name="sql.schema"),
    path("sql/schemas/<str:name>/tables/<path:table>", editor.columns, name="sql.columns"),
]
# /sql/saved/
urlpatterns += [
    path("sql/saved/", editor.save_statement, name="sql.save"),
    path("sql/saved/<int:key>", editor.change_saved, name="sql.saved"),
    path("sql/saved/<int:key>/delete", editor.delete_saved, name="sql.saved_delete"),
]
# /sql/tasks/
urlpatterns += [
    path("sql/tasks/", tasks.tasks, name="sql.tasks"),
    path("sql/cancel-statements/", tasks.cancel_many, name="sql.cancel_many"),
    path("sql/tasks/<str:task_id>/", tasks.task, name="sql.task"),
    path("sql/tasks/<str:task_id>/state", tasks.state, name="sql.state"),
    path("sql/tasks/<str:task_id>/pane", panes.pane, name="sql.pane"),
    path("sql/tasks/<str:task_id>/rows", panes.rows, name="sql.rows"),
    path("sql/tasks/<str:task_id>/plot", panes.plot, name="sql.plot"),
    path("sql/tasks/<str:task_id>/cancel", tasks.cancel, name="sql.cancel"),
    path("sql/tasks/<str:task_id>/again", tasks.again, name="sql.again"),
    path("sql/tasks/<str:task_id>/send-again", tasks.send_again, name="sql.send_again"),
    path("sql/tasks/<str:task_id>/result.csv", tasks.download, name="sql.download"),
]
# /sql/results/
urlpatterns += [path("sql/results/<str:token>/result.csv", tasks.fetch, name="sql.fetch")]
