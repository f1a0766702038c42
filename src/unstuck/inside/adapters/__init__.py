"""One file per hooked library.

An adapter names the `MODULES` it wants, the kinds of events it `OWES`, and has `install(module, guard)`, which returns
how to undo it. It never imports its library: it is handed the module after the user's code has imported it.
"""
