from datetime import timedelta
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = 'of an example'
DEBUG = True
USE_TZ = True
ROOT_URLCONF = 'mysite.urls'
INSTALLED_APPS = ['django.contrib.sessions', 'polls', 'spoold.contrib.django']
DATABASES = {'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': BASE_DIR / 'db.sqlite3'}}
DEFAULT_AUTO_FIELD = 'django.db.models.BigAutoField'

SPOOLD_ENQUEUE_TO = BASE_DIR / 'spool'
SPOOLD_CLEAR_SESSIONS_PERIODICITY = timedelta(weeks=1)

EMAIL_BACKEND = 'spoold.contrib.django.mail.BackgroundEmailBackend'
SPOOLD_ACTUAL_EMAIL_BACKEND = 'django.core.mail.backends.console.EmailBackend'
