"""Loads the project that DJANGO_SETTINGS_MODULE names, with the tasks of its applications, for the daemon.

    import = spoold.contrib.django.worker
"""

import os

if 'DJANGO_CONFIGURATION' in os.environ:
    from configurations import setup  # type: ignore[import-not-found, unused-ignore]
else:
    from django import setup  # type: ignore[import-not-found, unused-ignore]

setup()
