"""The command line, called in this process, which is fast and shares compiled programs."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

from probsysid.cli import main


@dataclass
class Answer:
    exit_code: int
    stdout: str
    stderr: str


def call(*arguments: object) -> Answer:
    """`probsysid ARGUMENTS`: exit code and output.  Exceptions other than `SystemExit` propagate."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["probsysid", *map(str, arguments)]
    code = 0
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = before
    return Answer(code, out.getvalue(), err.getvalue())
