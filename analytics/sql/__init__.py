"""SQL of tenants: the guard, the engine, the result file."""
