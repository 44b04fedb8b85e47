import spoold.uwsgi  # the line that is new: it comes before wsgi.py, asgi.py and settings.py, and so in every command, too
