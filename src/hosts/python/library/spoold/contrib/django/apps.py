# mypy: allow-subclassing-any

from __future__ import annotations

import importlib
import sys

from django.apps import AppConfig, apps  # type: ignore[import-not-found, unused-ignore]
from django.core import checks  # type: ignore[import-not-found, unused-ignore]
from django.core.signals import setting_changed  # type: ignore[import-not-found, unused-ignore]
from django.utils.module_loading import module_has_submodule  # type: ignore[import-not-found, unused-ignore]

from ... import Tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class SpooldConfig(AppConfig):
    name = 'spoold.contrib.django'
    label = 'spoold'
    verbose_name = 'spoold'

    def ready(self) -> None:
        from . import bind, spoold
        from .checks import check_spools

        bind()
        setting_changed.connect(_setting_changed, dispatch_uid='spoold')
        for app in apps.get_app_configs():
            if module_has_submodule(app.module, 'tasks'):
                tasks = getattr(importlib.import_module(app.name + '.tasks'), 'tasks', None)
                if isinstance(tasks, Tasks):
                    spoold.use(tasks)
        checks.register(check_spools)
        if 'ddtrace' in sys.modules:
            from ..datadog import register_datadog_if_module_patched

            register_datadog_if_module_patched('django')


def _setting_changed(*, setting: str, **_: Any) -> None:
    from . import bind

    if setting in ('SPOOLD_ENQUEUE_TO', 'SPOOLD_NAMESPACE'):
        bind()
