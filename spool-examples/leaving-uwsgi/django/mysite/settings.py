SECRET_KEY = 'an example'
ALLOWED_HOSTS = ['*']
ROOT_URLCONF = 'mysite.urls'
MIDDLEWARE = []
INSTALLED_APPS = []
DATABASES = {}
USE_TZ = True
