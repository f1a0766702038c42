"""One file per failure: evidence in, findings out. A file's name is the rule's name."""
