"""Imports as uWSGI does (plugins/python/python_plugin.c, pyutils.c)."""

import importlib
import importlib.machinery
import importlib.util
import os
import sys


def import_named(name):
    if '/' not in name and not name.endswith('.py'):
        importlib.import_module(name)
        return
    # the module also gets uWSGI's name, so that spoold and uWSGI can load each other's pickles
    uwsgi_name, own_name = pythonize(name), _importable_name(name)
    if own_name is None:
        import_file(uwsgi_name, name)
    else:
        sys.modules[uwsgi_name] = importlib.import_module(own_name)


def _importable_name(path):
    """Returns the name by which other code imports this file; None if there is none. Under that name the file is loaded once,
    and processes of `multiprocessing` find it. If no directory of `sys.path` leads to the file, its directory is appended."""
    path = os.path.realpath(path)
    stem = os.path.splitext(os.path.basename(path))[0]
    if not stem.isidentifier() or not (path.endswith('.py') or os.path.isdir(path)):
        return None
    file = os.path.join(path, '__init__.py') if os.path.isdir(path) else path
    for directory in sorted(map(os.path.realpath, sys.path), key=len, reverse=True):
        name = _name_below(directory, path)
        if name is not None:
            return name if _leads_to(name, file) else None
    sys.path.append(os.path.dirname(path))
    return stem if _leads_to(stem, file) else None


def _name_below(directory, path):
    """Returns the module name of a path below a directory; None if a directory between the two has no `__init__.py`."""
    if not path.startswith(directory + os.sep):
        return None
    parts = os.path.splitext(path[len(directory) + 1 :])[0].split(os.sep)
    for depth in range(1, len(parts)):
        if not os.path.isfile(os.path.join(directory, *parts[:depth], '__init__.py')):
            return None
    return '.'.join(parts) if all(part.isidentifier() for part in parts) else None


def _leads_to(name, file):
    loaded = sys.modules.get(name)
    if loaded is not None:
        return os.path.realpath(getattr(loaded, '__file__', None) or '') == file
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None and os.path.realpath(spec.origin) == file


def import_file(module_name, path):
    """Imports a file, which needs no extension, or a directory, as a package."""
    if os.path.isdir(path):
        init = os.path.join(path, '__init__.py')
        spec = importlib.util.spec_from_file_location(module_name, init, submodule_search_locations=[path])
    else:
        spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None:
        spec = importlib.util.spec_from_file_location(
            module_name, path, loader=importlib.machinery.SourceFileLoader(module_name, path)
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    spec.loader.exec_module(module)
    return module


def pythonize(name):
    """Returns the module name that uWSGI gives to a file: uwsgi_pythonize(), plugins/python/python_plugin.c."""
    for prefix in ('sym://', 'http://', 'data://'):
        if name.startswith(prefix):
            name = name[len(prefix) :]
    text = name.replace('.', '_').replace('/', '_')
    return text[:-3] if text.endswith('_py') else text
