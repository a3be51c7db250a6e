"""The service's requests and answers, without I/O: signatures, XML, and what each operation takes and gives."""
