"""The command line: what the commands are and what they print. Nobody imports it."""
