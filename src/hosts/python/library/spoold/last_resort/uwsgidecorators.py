# mypy: ignore-errors
"""Decorators with the names and the behaviour of uWSGI's module, for machines that do not have it.

This module is found in a worker, and where `spoold.uwsgi` is imported, and only if there is no other uwsgidecorators. Each of the
two modules understands the tasks that the other one stored.
"""

import functools
import pickle
import threading

import uwsgi

spooler_functions = {}
mule_functions = {}
postfork_chain = []


def _to_bytes(value):
    return value.encode() if isinstance(value, str) else value


def _to_text(value):
    return value.decode() if isinstance(value, bytes) else value


def get_free_signal():
    for number in range(256):
        if not uwsgi.signal_registered(number):
            return number
    raise Exception('No free uwsgi signal available')


# -- tasks


def manage_spool_request(vars):
    task = {_to_text(key): value for key, value in vars.items()}
    call = None
    if 'args' in task:
        call = [pickle.loads(task.pop(name)) for name in ('args', 'kwargs')]
    task = {key: _to_text(value) for key, value in task.items()}
    function = spooler_functions[task['ud_spool_func']]
    answer = function(task) if call is None else function(*call[0], **call[1])
    return int(task.get('ud_spool_ret', answer))


class _Spooled:
    """A function whose calls are stored as tasks."""

    #: the outcome of the task, whatever the function returns; None: what the function returns
    answer = None

    def __init__(self, function, pass_arguments=False):
        if 'spooler' not in uwsgi.opt:
            raise Exception('you have to enable the uWSGI spooler to use @%s decorator' % type(self).__name__)
        self.f = function
        self.pass_arguments = pass_arguments
        self.base_dict = {'ud_spool_func': function.__name__}
        if self.answer is not None:
            self.base_dict['ud_spool_ret'] = str(self.answer)
        spooler_functions[function.__name__] = function
        function.spool = self.__call__

    def __call__(self, *args, **kwargs):
        task = dict(self.base_dict)
        if self.pass_arguments:
            for name in ('message_dict', 'spooler', 'priority', 'at', 'body'):
                if name in kwargs:
                    task[name] = kwargs.pop(name)
            task['args'], task['kwargs'] = pickle.dumps(args), pickle.dumps(kwargs)
        else:
            task.update(*args[:1], **kwargs)
        return uwsgi.spool({_to_bytes(key): _to_bytes(value) for key, value in task.items()})

    def spool(self, *args, **kwargs):
        return self(*args, **kwargs)


class _spoolraw(_Spooled):
    pass


class _spool(_Spooled):
    answer = uwsgi.SPOOL_OK


class _spoolforever(_Spooled):
    answer = uwsgi.SPOOL_RETRY


def spool_decorate(f=None, pass_arguments=False, _class=_spoolraw):
    return functools.partial(_class, pass_arguments=pass_arguments) if f is None else _class(f, pass_arguments)


def spoolraw(f=None, pass_arguments=False):
    return spool_decorate(f, pass_arguments)


def spool(f=None, pass_arguments=False):
    return spool_decorate(f, pass_arguments, _spool)


def spoolforever(f=None, pass_arguments=False):
    return spool_decorate(f, pass_arguments, _spoolforever)


# -- functions called when the process starts


def postfork_chain_hook():
    for each in postfork_chain:
        each()


class postfork:
    """Registers a function to be called when the process starts: in all processes, or in the worker of this number. A spooler has
    number 0."""

    def __init__(self, f):
        self.wid, self.f = (0, f) if callable(f) else (f, None)
        postfork_chain.append(self)

    def __call__(self, *args, **kwargs):
        if self.f is None:
            self.f = args[0]
        elif self.wid in (0, uwsgi.worker_id()):
            return self.f()


class thread:
    def __init__(self, f):
        self.f = f

    def __call__(self, *args):
        threading.Thread(target=self.f, args=args, daemon=True).start()
        return self.f


# -- signals


def _registered(register):
    """Returns a decorator that registers its function for a signal, or for a free one if none is given."""

    class decorator:
        def __init__(self, *args, **kwargs):
            self.args = args
            self.num = kwargs['signum'] if 'signum' in kwargs else get_free_signal()
            self.target = kwargs.get('target', '')

        def __call__(self, f):
            uwsgi.register_signal(self.num, self.target, f)
            register(self.num, *self.args)
            return f

    return decorator


timer = _registered(lambda number, secs: uwsgi.add_timer(number, secs))
rbtimer = _registered(lambda number, secs: uwsgi.add_rb_timer(number, secs))
filemon = _registered(lambda number, fsobj: uwsgi.add_file_monitor(number, fsobj))
cron = _registered(
    lambda number, minute, hour, day, month, dayweek: uwsgi.add_cron(number, minute, hour, day, month, dayweek)
)


class signal:
    def __init__(self, num, **kwargs):
        self.num = num
        self.target = kwargs.get('target', '')

    def __call__(self, f):
        uwsgi.register_signal(self.num, self.target, f)
        return f


# -- around a call


class lock:
    """Calls a function with the lock. A spooler cannot lock, so the function is not called there."""

    def __init__(self, f):
        self.f = f

    def __call__(self, *args, **kwargs):
        if uwsgi.i_am_the_spooler():
            return None
        uwsgi.lock()
        try:
            return self.f(*args, **kwargs)
        finally:
            uwsgi.unlock()


class harakiri:
    def __init__(self, seconds):
        self.s = seconds

    def __call__(self, f):
        def call(*args, **kwargs):
            uwsgi.set_user_harakiri(self.s)
            answer = f(*args, **kwargs)
            uwsgi.set_user_harakiri(0)
            return answer

        return call


class rpc:
    def __init__(self, name):
        self.name = name

    def __call__(self, f):
        uwsgi.register_rpc(self.name, f)
        return f


# -- for other kinds of processes


class mulefunc:
    def __init__(self, f):
        self.mule, self.fname = (0, f.__name__) if callable(f) else (f, None)
        if callable(f):
            mule_functions[f.__name__] = f

    def real_call(self, *args, **kwargs):
        message = {'service': 'uwsgi_mulefunc', 'func': self.fname, 'args': args, 'kwargs': kwargs}
        uwsgi.mule_msg(pickle.dumps(message), self.mule)

    def __call__(self, *args, **kwargs):
        if self.fname is not None:
            return self.real_call(*args, **kwargs)
        self.fname = args[0].__name__
        mule_functions[self.fname] = args[0]
        return self.real_call


def mule_msg_dispatcher(message):
    msg = pickle.loads(message)
    if msg['service'] == 'uwsgi_mulefunc':
        return mule_functions[msg['func']](*msg['args'], **msg['kwargs'])


class mule:
    def __init__(self, num=None, **kwargs):
        self.num = num

    def __call__(self, f):
        return None


class muleloop(mule):
    pass


class mulemsg(mule):
    pass


class farm(mule):
    pass


uwsgi.spooler = manage_spool_request
uwsgi.post_fork_hook = postfork_chain_hook
uwsgi.mule_msg_hook = mule_msg_dispatcher
