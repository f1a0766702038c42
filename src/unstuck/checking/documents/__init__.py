"""JSON and text: whether they can be read, line by line or as a whole."""
