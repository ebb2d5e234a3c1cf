"""``python -m fsm``."""

from fsm.cli import main

if __name__ == "__main__":
    main()
