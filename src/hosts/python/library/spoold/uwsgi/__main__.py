"""Runs a Python program with uWSGI's modules: `python -m spoold.uwsgi -m gunicorn shop.wsgi`, `… manage.py migrate` or
`… -c CODE`."""

from __future__ import annotations

import os
import runpy
import sys
import types

import spoold.uwsgi  # noqa: F401 — what it is for

USAGE = 'usage: python -m spoold.uwsgi (-m MODULE | -c CODE | FILE) [ARGUMENTS…]'


def main() -> None:
    words = sys.argv[1:]
    if not words or words[0] in ('-m', '-c') and len(words) < 2:
        sys.exit(USAGE)
    if words[0] in ('-h', '--help'):
        print(USAGE)
    elif words[0] == '-m':
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name='__main__', alter_sys=True)
    elif words[0] == '-c':
        sys.argv = ['-c', *words[2:]]
        program = sys.modules['__main__'] = types.ModuleType('__main__')
        exec(compile(words[1], '<string>', 'exec'), program.__dict__)
    elif words[0].startswith('-'):
        sys.exit("%s\n%s is an option of Python's: write it before -m" % (USAGE, words[0]))
    else:
        _run_file(words)


def _run_file(words: list[str]) -> None:
    path = words[0]
    if not os.path.exists(path):
        sys.exit('python -m spoold.uwsgi: there is no file %s' % path)
    sys.argv = words
    if not getattr(sys.flags, 'safe_path', False):
        sys.path[0] = os.path.dirname(os.path.realpath(path))  # as Python does for a file; with -m it is the current directory
    runpy.run_path(path, run_name='__main__')


main()
