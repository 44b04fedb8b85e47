"""Loads the application for the daemon, as the command `flask` finds it: from FLASK_APP, .flaskenv, wsgi.py or app.py.

    import = spoold.contrib.flask.worker
"""

from __future__ import annotations

import os

from flask.cli import ScriptInfo, load_dotenv  # type: ignore[import-not-found, unused-ignore]

from . import registry_of

if os.environ.get('FLASK_SKIP_DOTENV', '').lower() not in ('1', 'true', 'yes'):
    load_dotenv()
app = ScriptInfo(app_import_path=os.environ.get('FLASK_APP') or None).load_app()
registry_of(app)
