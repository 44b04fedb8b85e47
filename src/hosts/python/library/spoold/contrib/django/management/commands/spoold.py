# mypy: allow-subclassing-any
"""The command `manage.py spoold`: starts the daemon of the project."""

from __future__ import annotations

import os
import sys

from django.conf import settings  # type: ignore[import-not-found, unused-ignore]
from django.core.management.base import BaseCommand, CommandError  # type: ignore[import-not-found, unused-ignore]

from ..... import DestinationUnknown
from .... import command as daemon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Command(BaseCommand):
    help = 'Run the tasks of this project.'
    # no checks: the daemon checks its spools itself, and creates a missing directory
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument('--queue', action='append', default=[], metavar='NAME', dest='queues', help=daemon.QUEUE)
        parser.add_argument('--processes', '--threads', type=int, metavar='N', help=daemon.PROCESSES)
        parser.add_argument('--concurrency', type=int, metavar='N', help=daemon.CONCURRENCY)
        parser.add_argument('--drain', '--stop-when-queue-empty', action='store_true', help=daemon.DRAIN)
        reload = parser.add_mutually_exclusive_group()
        reload.add_argument('--reload', action='store_true', default=None, help=daemon.RELOAD)
        reload.add_argument('--no-reload', action='store_false', dest='reload')
        parser.add_argument('others', nargs='*', metavar='-- OPTIONS OF SPOOLD')

    def handle(self, *_: Any, **options: Any) -> None:
        names = ('queues', 'processes', 'concurrency', 'drain', 'others')
        try:
            words = daemon.arguments(
                getattr(settings, 'SPOOLD_ENQUEUE_TO', None),
                'spoold.contrib.django.worker',
                reload=settings.DEBUG if options['reload'] is None else options['reload'],
                paths=[os.path.abspath(path) for path in (options['pythonpath'], sys.path[0]) if path],
                **{name: options[name] for name in names},
            )
            daemon.become(words)
        except (DestinationUnknown, OSError) as error:
            raise CommandError(str(error)) from error
