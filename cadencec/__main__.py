"""`python -m cadencec` is the command line."""

from cadencec.cli import main

main()
