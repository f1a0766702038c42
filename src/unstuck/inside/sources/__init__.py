"""What data libraries hand out: rows and tokens, buffers that are filled, files and shards."""
