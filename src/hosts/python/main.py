"""Runs spooler functions for a worker of spoold, which starts this program and communicates over descriptors 3 to 6.

All code is in `main`, because `multiprocessing` and others import this file again in the processes that they start, where it must
not run. So user code finds no names of the host in `__main__`, either.
"""


def main():
    import os
    import sys

    if sys.version_info < (3, 7):  # checked before the imports, because an older Python cannot even parse those modules
        sys.exit('Python %s is too old: expected 3.7 or later. Name one with python = PATH, or with virtualenv = DIR' % sys.version.split()[0])

    ours = os.path.dirname(os.path.abspath(__file__))
    if getattr(sys.flags, 'safe_path', False):
        sys.path.insert(0, ours)  # with PYTHONSAFEPATH, Python has not put this directory first
    else:
        sys.path[0] = ours

    import spoold_host.process as process
    from spoold_host.output import Output
    from spoold_host.wire import Wire

    wire = Wire()
    settings = wire.read_settings()
    process.prepare()
    output = Output(wire)

    import spoold_host.excepthook as excepthook
    import spoold_host.loader as loader
    import spoold_host.named as named
    import spoold_host.streams as streams
    from spoold_host.loop import Loop

    excepthook.install()
    named.open_to(settings)
    loop = Loop(wire, settings, output)
    if named.is_concurrent(settings):
        streams.install(wire)  # before user code keeps a reference to a stream
    process.guard(loop.blame_signal)
    if process.call(loader.load, wire, settings, loop):
        uwsgi = sys.modules['uwsgi']  # kept, because a task may remove the module from sys.modules
        try:
            if named.runs_coroutines(settings):
                import spoold_host.coroutines as coroutines

                coroutines.Coroutines(wire, loop).serve()
            else:
                loop.serve()
        finally:
            process.call(uwsgi._end)


if __name__ == '__main__':
    main()
