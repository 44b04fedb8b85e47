"""Finds the program `spoold`."""

from __future__ import annotations

import os
import shutil


def find_program() -> str:
    """Returns the path of the program `spoold`. Raises FileNotFoundError if there is none."""
    program = shutil.which('spoold') or shutil.which(os.path.join('node_modules', '.bin', 'spoold'))
    if program is None:
        raise FileNotFoundError(
            'the program spoold is neither in the PATH nor in ./node_modules/.bin: npm install -g spoold, or npm install spoold here'
        )
    return program
