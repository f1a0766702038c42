"""Zip archives, of which npz is one: their directory, and every member against its checksum."""
