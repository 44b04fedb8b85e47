import spoold.uwsgi  # the new line: it brings uWSGI's modules to any server; under uWSGI it does nothing

from shop import app as application
