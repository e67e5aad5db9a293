"""The commands of the command line, one subject a file; nothing heavy is imported at the top."""
