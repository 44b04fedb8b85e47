import spoold.uwsgi  # the new line: it runs before wsgi.py, asgi.py and settings.py, so it holds for every command, too
