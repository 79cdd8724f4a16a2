"""The program: `headrace`, or `python -m headrace`."""

import sys

from headrace.cli.interrupts import CtrlC, secure, stopped


def main() -> int:
    secure()
    ctrl_c = CtrlC()
    try:
        ctrl_c.listen()
        status = _command()
        ctrl_c.end(status)
        return status
    except KeyboardInterrupt:
        return stopped()


def _command() -> int:
    from headrace.cli import main as cli  # takes a while, in which Ctrl-C is heard already

    try:
        return cli.main()
    except SystemExit as ended:  # help was asked for, or words cannot be read
        return cli.status_of(ended)


if __name__ == "__main__":
    sys.exit(main())
