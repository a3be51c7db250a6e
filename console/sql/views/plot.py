"""A plot of a result."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from analytics.errors import LakeError
from console.sql import access, plots
from console.sql.forms import PlotForm
from console.web import htmx
from console.web.http import Request

#: Rows of the table that says the same as the plot.
_TABLE_ROWS = 200


@require_GET
def plot(request: Request, task_id: str) -> HttpResponse:
    """The form and the plot it asks for; the first one is a guess from the types of the columns."""
    task = access.task(request, task_id)
    page = "sql/_plot.html" if htmx.is_fragment(request) else "sql/plot.html"
    try:
        columns = plots.columns_of(task)
        form = PlotForm(request.GET if "x" in request.GET else None, columns=columns, prefix_id=task.pk)
        if form.is_bound and not form.is_valid():
            return render(request, page, {"task": task, "form": form}, status=422)
        choice = form.choice if form.is_bound else plots.first_choice(columns)
        drawn = plots.draw(task, columns, choice)
    except LakeError as error:
        return render(request, page, {"task": task, "result_gone": error.user_message})
    form = form if form.is_bound else PlotForm(initial=PlotForm.initial_of(choice), columns=columns, prefix_id=task.pk)
    context = {
        "task": task, "form": form, "plot": drawn, "table": drawn.table[:_TABLE_ROWS],
        "left_out": max(len(drawn.table) - _TABLE_ROWS, 0), "x_name": columns[choice.x].name,
        "most_points": plots.MOST_POINTS, "chart_id": f"plot-{task.pk}",
    }  # fmt: skip
    return render(request, page, context)
