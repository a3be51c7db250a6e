"""The engine of pipelines, and its worker, with real parts."""
