"""How things are written for a person: names that cannot forge a line, commands that can be pasted."""
