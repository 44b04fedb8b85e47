"""What happens to tasks, for receivers in the process that runs them.

    @signals.job_started.connect
    def started(namespace, job, **kwargs): ...

    @signals.job_failed.connect_via('shop')       # only tasks of Tasks(namespace='shop')
    def failed(namespace, job, err, **kwargs): ...

A receiver that raises is logged by the logger `spoold.signals`, and harms nothing.
"""

import logging

_log = logging.getLogger(__name__)
_ANY = object()


class Signal:
    def __init__(self, name):
        self.name = name
        self._receivers = ()

    def __repr__(self):
        return 'Signal <%s>' % self.name

    def connect(self, receiver):
        self._receivers += ((_ANY, receiver),)
        return receiver

    def connect_via(self, namespace):
        def connect(receiver):
            self._receivers += ((namespace, receiver),)
            return receiver

        return connect

    def disconnect(self, receiver):
        self._receivers = tuple(each for each in self._receivers if each[1] is not receiver)

    def send(self, namespace, **details):
        for wanted, receiver in self._receivers:
            if wanted is _ANY or wanted == namespace:
                try:
                    receiver(namespace, **details)
                except Exception:
                    _log.exception('a receiver of %s failed: %r', self.name, receiver)


#: job: it starts
job_started = Signal('job_started')
#: job: its run has ended, whatever the outcome; the last signal of a run
job_finished = Signal('job_finished')
#: job, err: it failed, and runs again
job_schedule_retry = Signal('job_schedule_retry')
#: job, err: it failed, and will not run again
job_failed = Signal('job_failed')
#: worker_name
worker_started = Signal('worker_started')
#: worker_name
worker_terminated = Signal('worker_terminated')
