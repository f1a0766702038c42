"""The processes themselves and the machine under them."""
