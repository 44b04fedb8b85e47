"""Loads web applications as uWSGI does before it forks its spoolers (plugins/python/pyloader.c). It serves none of them."""

import importlib
import os

from .modules import import_file


def load_applications(settings, explain):
    """Returns an error message per application that could not be loaded. uWSGI also prints such messages and continues."""
    failures = []
    values = [os.fsdecode(value) for value in settings.get('application', [])]
    name = os.fsdecode(settings.get('callable', [b'application'])[-1])
    for option, loader, value in zip(values[::3], values[1::3], values[2::3]):
        if loader == 'paste' and 'paste-logger' in settings:
            _set_up_logging(value)
        try:
            _LOADERS[loader](value, name)
        except BaseException as error:  # SystemExit too: an application must not end the host
            failures.append('the application of %s = %s could not be loaded:\n%s' % (option, value, explain(error)))
    return failures


def _load_module(value, name):
    module, _, own_name = value.partition(':')
    _call_factory(importlib.import_module(module), own_name or name)


def _load_file(value, name):
    from .modules import pythonize

    _call_factory(import_file('uwsgi_file_' + pythonize(value), value), name)


def _call_factory(module, name):
    if name.endswith('()'):
        getattr(module, name[:-2])()


def _load_code(value, name):
    exec(compile(value, '<eval>', 'exec'), {'__name__': 'uwsgi_eval', '__builtins__': __builtins__})


def _load_pecan(value, name):
    importlib.import_module('pecan.deploy').deploy(value)


def _set_up_logging(value):
    """Configures logging from the Paste file, with the defaults of Paste's own programs. An error is printed, as in uWSGI."""
    import logging.config
    import traceback

    file = os.path.abspath(value.partition(':')[2].partition('#')[0])
    try:
        logging.config.fileConfig(file, {'here': os.path.dirname(file), '__file__': file})
    except Exception:
        traceback.print_exc()


def _load_paste(value, name):
    importlib.import_module('paste.deploy').loadapp(value)


_LOADERS = {
    'module': _load_module,
    'file': _load_file,
    'eval': _load_code,
    'pecan': _load_pecan,
    'paste': _load_paste,
}
