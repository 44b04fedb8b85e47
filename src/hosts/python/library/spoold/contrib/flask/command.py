"""The command `flask spoold`: starts the daemon of the application that Flask has found."""

# mypy: allow-untyped-decorators

from __future__ import annotations

import os
import sys

import click  # type: ignore[import-not-found, unused-ignore]
from flask.cli import ScriptInfo, pass_script_info  # type: ignore[import-not-found, unused-ignore]
from flask.helpers import get_debug_flag  # type: ignore[import-not-found, unused-ignore]

from ... import DestinationUnknown
from .. import command as daemon
from . import places_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@click.command('spoold', context_settings={'ignore_unknown_options': True})
@click.option('--queue', 'queues', multiple=True, metavar='NAME', help=daemon.QUEUE)
@click.option('--processes', '--threads', type=click.IntRange(1), help=daemon.PROCESSES)
@click.option('--concurrency', type=click.IntRange(1), help=daemon.CONCURRENCY)
@click.option('--drain', '--stop-when-queue-empty', is_flag=True, help=daemon.DRAIN)
@click.option('--reload/--no-reload', default=None, help=daemon.RELOAD)
@click.argument('others', nargs=-1, type=click.UNPROCESSED, metavar='[OPTIONS OF SPOOLD]...')
@pass_script_info
def command(info: ScriptInfo, reload: bool | None, **options: Any) -> None:
    """Run the tasks of this application."""
    app = info.load_app()
    os.environ['FLASK_APP'] = _import_path(info)
    try:
        words = daemon.arguments(
            places_of(app),
            'spoold.contrib.flask.worker',
            reload=get_debug_flag() if reload is None else reload,
            **options,
        )
        daemon.become(words)
    except (DestinationUnknown, OSError) as error:
        raise click.ClickException(str(error)) from error


def _import_path(info: ScriptInfo) -> str:
    """Returns FLASK_APP for the worker; '' if Flask finds the application without it. A program that has commands of its own may
    make the application in a function."""
    factory = info.create_app
    if info.app_import_path or factory is None:
        return info.app_import_path or ''
    module, name = getattr(factory, '__module__', None), getattr(factory, '__qualname__', '')
    if module == '__main__':  # the worker has another __main__, so it needs the module's real name, or its file
        main = sys.modules[module]
        spec, file = main.__spec__, getattr(main, '__file__', None)
        module = spec.name if spec is not None else file and os.path.abspath(file)
    if not module or not name.isidentifier():
        raise click.ClickException(
            'the workers make the application themselves, and find no name for %r: give FlaskGroup(create_app=…) a function at the top '
            'of a module, or run flask --app MODULE spoold' % factory
        )
    return '%s:%s' % (module, name)
