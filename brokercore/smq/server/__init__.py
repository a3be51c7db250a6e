"""The process of the queue service: connections of HTTP, rights, operations, and polls that wait."""
