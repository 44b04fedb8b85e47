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
    # under the name that uWSGI uses, so that each can load the other's pickles
    import_file(pythonize(name), name)


def import_file(module_name, path):
    """A directory is a package, and a file needs no extension."""
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
    """uwsgi_pythonize(), plugins/python/python_plugin.c."""
    for prefix in ('sym://', 'http://', 'data://'):
        if name.startswith(prefix):
            name = name[len(prefix) :]
    text = name.replace('.', '_').replace('/', '_')
    return text[:-3] if text.endswith('_py') else text
