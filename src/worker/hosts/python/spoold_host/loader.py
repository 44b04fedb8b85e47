"""Loads what the configuration names, in uWSGI's order (plugins/python/python_plugin.c)."""

import importlib
import importlib.util
import os
import sys

from .wire import READY, UNLOADABLE


def load(wire, settings, loop):
    """Tells the worker how it went. True when tasks may come."""
    try:
        _find_modules(settings)
        import uwsgi

        uwsgi._start(wire, settings, loop)
        for name in settings.get('shared-import', []) + settings.get('import', []):
            _import(os.fsdecode(name))
        hook = getattr(uwsgi, 'post_fork_hook', None)
        if hook is not None:
            hook()
        for name in settings.get('spooler-import', []):
            _import(os.fsdecode(name))
    except BaseException as error:
        wire.send(UNLOADABLE, 0, _explain(error).encode('utf-8', 'backslashreplace'))
        return False
    wire.send(READY)
    return True


def _find_modules(settings):
    """Ours stay behind everybody's: only `uwsgi` is for them, and it is in place from here on."""
    ours = sys.path.pop(0)
    spec = importlib.util.spec_from_file_location('uwsgi', os.path.join(ours, 'uwsgi.py'))
    sys.modules['uwsgi'] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # uWSGI puts "." there, which would be the spool once tasks run
    sys.path.insert(0, os.getcwd())
    for path in settings.get('path', []):
        sys.path.insert(0, os.fsdecode(path))


def _import(name):
    if '/' not in name and not name.endswith('.py'):
        importlib.import_module(name)
        return
    # under the name that uWSGI gives it, so that pickles of either are understood by both
    module_name = _pythonize(name)
    spec = importlib.util.spec_from_file_location(module_name, name)
    if spec is None:
        spec = importlib.util.spec_from_loader(module_name, importlib.machinery.SourceFileLoader(module_name, name))
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    spec.loader.exec_module(module)


def _pythonize(name):
    """uwsgi_pythonize(), plugins/python/python_plugin.c."""
    for prefix in ('sym://', 'http://', 'data://'):
        if name.startswith(prefix):
            name = name[len(prefix) :]
    text = name.replace('.', '_').replace('/', '_')
    return text[:-3] if text.endswith('_py') else text


def _explain(error):
    import traceback

    trace = error.__traceback__
    while trace is not None and (
        os.path.dirname(trace.tb_frame.f_code.co_filename) == os.path.dirname(__file__)
        or trace.tb_frame.f_code.co_filename.startswith('<frozen importlib')
    ):
        trace = trace.tb_next
    return ''.join(traceback.format_exception(type(error), error, trace)).rstrip()
