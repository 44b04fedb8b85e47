"""For the daemon: loads the project that DJANGO_SETTINGS_MODULE names, with the tasks of its applications.

    import = spoold.contrib.django.worker
"""

import django  # type: ignore[import-not-found, unused-ignore]

django.setup()
