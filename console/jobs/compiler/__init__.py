"""From the text of a SQL job to the plan that the engine runs, or to what is wrong with the text.

`script` splits a text into statements, `definition` and `types` read CREATE TABLE, `connectors` know every option,
`dialect` writes queries as Spark wants them (`functions`, `windows`, `rows`), `settings` reads SET, and `planning`
makes the plan of all of it (`analytics.pipelines.plan`). Nothing here needs Spark or the database.
"""
