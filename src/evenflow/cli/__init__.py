"""The command line, one file a command. Heavy imports are inside the commands."""
