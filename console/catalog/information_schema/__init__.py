"""`information_schema`: its tables (`definitions`), their rows (`rows`), answers to queries on them (`answering`)."""
