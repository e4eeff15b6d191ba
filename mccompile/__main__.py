"""`python -m mccompile` is `mccompile`."""

from mccompile.cli.main import main

main()
