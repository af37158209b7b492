"""The commands, one module a noun. Heavy libraries are imported by the command that needs them."""
