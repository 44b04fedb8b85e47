"""Signals: receivers in the process that runs tasks are told what happens to them.

    @signals.job_started.connect
    def started(namespace, job, **kwargs): ...

    @signals.job_failed.connect_via('shop')       # only tasks of Tasks(namespace='shop')
    def failed(namespace, job, err, **kwargs): ...

An exception in a receiver is logged by the logger `spoold.signals`, and has no other effect. Signals are used like those of
blinker, with namespaces as senders. But a receiver stays connected even if nothing else refers to it, unless it was connected
with `weak=True`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, TypeVar

    Receiver = TypeVar('Receiver', bound=Callable[..., Any])


class _Any:
    """The sender that stands for every namespace."""

    def __repr__(self) -> str:
        return 'ANY'


ANY = _Any()


class Signal:
    def __init__(self, name: str) -> None:
        self.name = name
        #: pairs of a namespace or ANY, and a function that returns the receiver, or None once the receiver is gone. The tuple is
        #: replaced as a whole, so that a receiver may connect others
        self._connected: tuple[tuple[str | _Any, Callable[[], Callable[..., Any] | None]], ...] = ()
        self._is_muted = False

    def __repr__(self) -> str:
        return 'Signal <%s>' % self.name

    def connect(self, receiver: Receiver, sender: str | _Any = ANY, weak: bool = False) -> Receiver:
        """Connects a receiver. Connecting it again with the same sender does nothing. Returns the receiver, so this is a
        decorator, too."""
        if not callable(receiver):
            raise TypeError('%s.connect: expected a function, got %r' % (self.name, receiver))
        self._check(sender)
        if not any(each[0] == sender and each[1]() == receiver for each in self._connected):
            living = [each for each in self._connected if each[1]() is not None]
            self._connected = (*living, (sender, _weakly(receiver) if weak else lambda: receiver))
        return receiver

    def connect_via(self, sender: str | _Any, weak: bool = False) -> Callable[[Receiver], Receiver]:
        """Returns a decorator that connects a receiver with one namespace."""
        self._check(sender)
        return lambda receiver: self.connect(receiver, sender, weak)

    def connected_to(self, receiver: Callable[..., Any], sender: str | _Any = ANY) -> Any:
        """Returns a context manager that connects the receiver for the time of a `with` block."""
        from contextlib import contextmanager

        @contextmanager
        def connected() -> Iterator[None]:
            self.connect(receiver, sender)
            try:
                yield
            finally:
                self.disconnect(receiver, sender)

        return connected()

    def muted(self) -> Any:
        """Returns a context manager during which this signal is sent to nobody."""
        from contextlib import contextmanager

        @contextmanager
        def muted() -> Iterator[None]:
            before, self._is_muted = self._is_muted, True
            try:
                yield
            finally:
                self._is_muted = before

        return muted()

    def disconnect(self, receiver: Callable[..., Any], sender: str | _Any = ANY) -> None:
        """Disconnects a receiver from this sender; without a sender, from all."""
        self._connected = tuple(
            each for each in self._connected if each[1]() != receiver or (sender is not ANY and each[0] != sender)
        )

    @property
    def receivers(self) -> dict[int, Callable[..., Any]]:
        return {id(each): each for each in (get() for _, get in self._connected) if each is not None}

    def receivers_for(self, sender: str | None) -> list[Callable[..., Any]]:
        found: list[Callable[..., Any]] = []
        for wanted, get in self._connected:
            receiver = get() if wanted is ANY or wanted == sender else None
            if receiver is not None and receiver not in found:
                found.append(receiver)
        return found

    def has_receivers_for(self, sender: str | None) -> bool:
        return bool(self.receivers_for(sender))

    def send(self, *sender: str, **details: Any) -> list[tuple[Callable[..., Any], Any]]:
        """Calls the receivers. Returns pairs of a receiver and what it returned."""
        if len(sender) > 1:
            raise TypeError('%s.send: expected one namespace, got %d' % (self.name, len(sender)))
        if not self._connected or self._is_muted:
            return []
        namespace = sender[0] if sender else None
        answers = []
        for receiver in self.receivers_for(namespace):
            try:
                answers.append((receiver, receiver(namespace, **details)))
            except Exception:
                import logging

                logging.getLogger(__name__).exception('a receiver of %s failed: %r', self.name, receiver)
        return answers

    def _check(self, sender: object) -> None:
        if sender is not ANY and not isinstance(sender, str):
            hint = ': write tasks.namespace' if hasattr(sender, 'namespace') else ''
            raise TypeError(
                '%s: expected the namespace of a registry, such as tasks.namespace, got %r%s' % (self.name, sender, hint)
            )


def _weakly(receiver: Callable[..., Any]) -> Callable[[], Callable[..., Any] | None]:
    import weakref

    return weakref.WeakMethod(receiver) if hasattr(receiver, '__self__') else weakref.ref(receiver)


#: a run of a task starts. Arguments: job
job_started = Signal('job_started')
#: a run has ended, whatever the outcome; the last signal of a run. Arguments: job
job_finished = Signal('job_finished')
#: a task failed, and runs again. Arguments: job, err
job_schedule_retry = Signal('job_schedule_retry')
#: a task failed, and will not run again. Arguments: job, err
job_failed = Signal('job_failed')
#: a worker has started. Arguments: worker_name
worker_started = Signal('worker_started')
#: a worker ends. Arguments: worker_name
worker_terminated = Signal('worker_terminated')
