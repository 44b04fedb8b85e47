import spoold.uwsgi  # the line that is new: uWSGI's modules under any server; under uWSGI it does nothing

from shop import app as application
