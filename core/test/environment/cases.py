"""What the two runners of hostile environments share: how a case fails, is skipped, and is called."""

import argparse
import subprocess
import tempfile


class Failure(Exception):
    """What the case found."""


class Skip(Exception):
    """This machine cannot run the case."""


def run(cases, bench, library):
    """Run the case named on the command line; returns the exit status. `library` names the option that gives ours."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--" + library, required=True)
    parser.add_argument("case", choices=sorted(cases))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pagewise-environment-") as folder:
        try:
            cases[arguments.case](bench(arguments, folder))
        except Skip as reason:
            print(f"skipped: {arguments.case}: {reason}")
            return 77
        except (Failure, subprocess.TimeoutExpired) as reason:
            print(f"{arguments.case}: {reason}")
            return 1
    return 0
