"""Sources of Spark for what is no file: they run in Spark's Python workers, on the driver and on executors."""
