"""PySpark work: SQL of tenants, the lake, rollups. No Django, no request: it is told what to read."""
