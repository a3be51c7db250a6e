"""Pages of async SQL, a module a subject."""
