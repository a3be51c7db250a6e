"""Message inflow tasks: pipelines whose text is the document of a task (`analytics.inflow.task`), made by a form."""
