"""How things end: exceptions, exit statuses of children, and calls in which ranks wait for each other."""
