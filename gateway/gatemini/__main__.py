"""The console script and `python -m gatemini`: decide whether this is the proxy before anything is imported."""

import sys


def main() -> None:
    """Run the proxy for a bare `gatemini [-c CONFIG]`, else the command line."""
    words, config = sys.argv[1:], None
    while words:
        option, given, attached = words[0].partition("=")
        if option not in ("-c", "--config") or not (given or len(words) > 1):
            break
        config = attached if given else words[1]
        words = words[1:] if given else words[2:]
    if words or sys.platform == "win32":
        from gatemini.cli.main import main as command_line  # noqa: PLC0415 - the proxy does not pay for it

        command_line()
    else:
        from gatemini.proxy.stdio import main as proxy  # noqa: PLC0415

        proxy(config)


if __name__ == "__main__":
    main()
