"""Spooler code written for uWSGI. Needs uwsgidecorators.py (Debian: apt install python3-uwsgidecorators)."""

from uwsgidecorators import spool


@spool
def greet(arguments):
    print('hello', arguments['to'])


@spool(pass_arguments=True)
def add(*numbers, then=None):
    print('the sum is', sum(numbers))
    if then is not None:
        greet.spool(to=then)


@spool
def begin(arguments):
    """An application would do this in a request; here the first task does it."""
    greet.spool(to='world')
    add(1, 2, 3, then='sum')
