# mypy: allow-subclassing-any
"""Sends mail in the background.

    EMAIL_BACKEND = 'spoold.contrib.django.mail.BackgroundEmailBackend'
    SPOOLD_ACTUAL_EMAIL_BACKEND = 'django.core.mail.backends.smtp.EmailBackend'
"""

from __future__ import annotations

import json
import logging
import smtplib
import sys
from email import message_from_bytes, policy
from email.charset import Charset
from email.message import MIMEPart, Message
from email.mime.base import MIMEBase

from django.conf import settings  # type: ignore[import-not-found, unused-ignore]
from django.core.exceptions import ImproperlyConfigured  # type: ignore[import-not-found, unused-ignore]
from django.core.mail import EmailMessage  # type: ignore[import-not-found, unused-ignore]
from django.core.mail.backends.base import BaseEmailBackend  # type: ignore[import-not-found, unused-ignore]
from django.utils.functional import Promise  # type: ignore[import-not-found, unused-ignore]
from django.utils.module_loading import import_string  # type: ignore[import-not-found, unused-ignore]

from ... import AbortException, Batch, current_job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Sequence

#: characters: longer text is kept beside the JSON
_LONG = 4096
#: seconds for an answer of the server; without a limit, a silent server would hold the worker for ever
_TIMEOUT = 60
#: the most recipients that people see with the task
_SHOWN = 10
#: the header of a task whose mail was made in a run of another task that sends mail
_ABOUT_MAIL = 'about-mail'
_MARK = '#'
#: the attributes of a Charset
_CHARSET = ('input_charset', 'header_encoding', 'body_encoding', 'output_charset', 'input_codec', 'output_codec')


class BackgroundEmailBackend(BaseEmailBackend):
    """Makes a task of each message; the messages of one call are one batch. An error in a message is raised here."""

    def __init__(self, fail_silently: bool = False, **options: Any) -> None:
        if any([options.pop('username', None), options.pop('password', None)]):
            raise ValueError(
                'mail in the background is sent with the account in the settings of the worker: leave username and password out'
            )
        super().__init__(**options)
        self.fail_silently = fail_silently

    def send_messages(self, email_messages: Sequence[Any]) -> int:
        from . import spoold

        job = current_job()
        headers = {}
        if job is not None and job.task_name == 'spoold:send-email':  # AdminEmailHandler tells of this task's failure by mail
            if _ABOUT_MAIL in job.headers:
                log = logging.getLogger('spoold.contrib.django')
                log.warning('A mail is left out that tells of the failure of a mail that told of such a failure: it would go on for ever')
                return 0
            headers[_ABOUT_MAIL] = 'yes'
        batch = Batch()
        try:
            for message in email_messages:
                recipients = message.recipients()
                if recipients:
                    to = [str(each) for each in recipients[:_SHOWN]]
                    batch.with_options(body=pack(message), headers=headers).schedule('spoold:send-email', subject=str(message.subject), to=to)
            return len(spoold.schedule_batch(batch))
        except Exception:
            if not self.fail_silently:
                raise
            return 0


def send(message: Any, only: Sequence[str] | None) -> dict[str, tuple[int, bytes]]:
    """Sends a message with the actual backend, over a connection of its own. Returns the recipients that the server has refused,
    with its code and words. Raises what the backend raises; if no recipient was accepted, it raises only if all were refused
    alike, for now or for good.

    only  send to these recipients only; None: to all
    """
    connection = _actual_backend()
    if only is not None:
        message.recipients = lambda: list(only)
    if getattr(connection, 'timeout', _TIMEOUT) is None:
        connection.timeout = _TIMEOUT
    refused: dict[str, tuple[int, bytes]] = {}
    try:
        connection.open()
        _listen(getattr(connection, 'connection', None), refused)
        connection.send_messages([message])
    except smtplib.SMTPRecipientsRefused as error:
        if len({code < 500 for code, _ in error.recipients.values()}) == 1:
            raise
        refused.update(error.recipients)
    finally:
        _close(connection)
    return refused


def _actual_backend() -> Any:
    """Returns the backend of SPOOLD_ACTUAL_EMAIL_BACKEND: the path of a class or, since Django 6.1, an entry of MAILERS."""
    told = getattr(settings, 'SPOOLD_ACTUAL_EMAIL_BACKEND', None) or 'django.core.mail.backends.smtp.EmailBackend'
    if told in getattr(settings, 'MAILERS', ()):
        from django.core.mail import mailers

        backend = mailers[told]
    else:
        backend = import_string(told)()
    if isinstance(backend, BackgroundEmailBackend):
        raise ImproperlyConfigured('SPOOLD_ACTUAL_EMAIL_BACKEND: expected the backend that sends, got the one in the background')
    return backend


def is_permanent(error: BaseException) -> bool:
    """True if the server refuses the message, or its recipients, for good. A fault of the account is not permanent, because the
    operator may correct it."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return all(code >= 500 for code, _ in error.recipients.values())
    if isinstance(error, smtplib.SMTPResponseException):
        return error.smtp_code >= 500 and not isinstance(error, smtplib.SMTPAuthenticationError)
    return isinstance(error, smtplib.SMTPNotSupportedError)


def words(refused: dict[str, tuple[int, bytes]]) -> str:
    return ', '.join('%s: %d %s' % (to, code, text.decode('utf-8', 'replace')) for to, (code, text) in sorted(refused.items()))


def _listen(connection: Any, refused: dict[str, tuple[int, bytes]]) -> None:
    """Notes the refused recipients, because Django ignores them as long as one recipient was accepted."""
    sendmail = getattr(connection, 'sendmail', None)
    if sendmail is None:
        return

    def listening(*args: Any, **kwargs: Any) -> Any:
        answer = sendmail(*args, **kwargs)
        refused.update(answer)
        return answer

    connection.sendmail = listening


def _close(connection: Any) -> None:
    """Closes the connection, and ignores errors: the server may have accepted the message, which must not be sent again then."""
    try:
        connection.close()
    except (smtplib.SMTPException, OSError):
        pass


# -- a message as data: a line of JSON, and after it the bytes and long texts that it refers to


def pack(message: Any) -> bytes:
    """Returns a message as bytes. Raises what the message raises when it is rendered. Date and Message-ID are set now, so that
    they are the same in each attempt."""
    rendered = message.message()
    headers = {str(name): str(value if isinstance(value, (str, Promise)) else rendered[name]) for name, value in message.extra_headers.items()}
    names = {name.lower() for name in headers}
    fixed = {name: str(rendered[name]) for name in ('Date', 'Message-ID') if name.lower() not in names}
    packer = _Packer()
    data = packer.message(message, {'extra_headers': {**fixed, **headers}})
    line = json.dumps(data, ensure_ascii=True, separators=(',', ':')).encode()
    return b'\n'.join([line, b''.join(packer.parts)])


def unpack(body: bytes) -> Any:
    line, _, parts = body.partition(b'\n')
    return _Unpacker(parts).value(json.loads(line))


class _Packer:
    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._size = 0

    def message(self, message: Any, instead: dict[str, Any]) -> dict[str, Any]:
        fields = {**vars(message), **instead}
        for name in ('connection', '_connection'):
            fields.pop(name, None)
        items = {name: self.value(value, '%s.%s' % (type(message).__name__, name)) for name, value in fields.items()}
        return {_MARK: 'message', 'class': _path(type(message)), 'fields': items}

    def value(self, value: Any, where: str) -> Any:
        if isinstance(value, Promise):
            value = str(value)
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, str):
            return self._kept('text', value.encode('utf-8', 'surrogatepass')) if len(value) > _LONG else str(value)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._kept('bytes', bytes(value))
        if isinstance(value, EmailMessage):
            return self.message(value, {})
        if isinstance(value, Message):
            return {**self._kept('mime', value.as_bytes()), 'modern': isinstance(value, MIMEPart), 'base': isinstance(value, MIMEBase)}
        if isinstance(value, Charset):
            return {_MARK: 'charset', 'fields': {name: getattr(value, name) for name in _CHARSET}}
        if isinstance(value, dict):
            return {_MARK: 'dict', 'items': [[self.value(key, where), self.value(each, where)] for key, each in value.items()]}
        if isinstance(value, list):
            return [self.value(each, where) for each in value]
        if isinstance(value, tuple):
            named = _path(type(value)) if hasattr(value, '_fields') else None
            return {_MARK: 'tuple', 'class': named, 'items': [self.value(each, where) for each in value]}
        raise TypeError('%s: mail in the background keeps text, bytes, numbers, lists, dictionaries and MIME parts, got %r' % (where, value))

    def _kept(self, kind: str, data: bytes) -> dict[str, Any]:
        self.parts.append(data)
        start, self._size = self._size, self._size + len(data)
        return {_MARK: kind, 'from': start, 'to': self._size}


class _Unpacker:
    def __init__(self, parts: bytes) -> None:
        self._parts = parts

    def value(self, data: Any) -> Any:
        if isinstance(data, list):
            return [self.value(each) for each in data]
        if not isinstance(data, dict):
            return data
        unpack = getattr(self, '_' + data[_MARK])
        return unpack(data)

    def _message(self, data: dict[str, Any]) -> Any:
        message: Any = object.__new__(_found(data['class'], EmailMessage))
        vars(message).update(connection=None, _connection=None, **{name: self.value(value) for name, value in data['fields'].items()})
        return message

    def _text(self, data: dict[str, Any]) -> str:
        return self._bytes(data).decode('utf-8', 'surrogatepass')

    def _bytes(self, data: dict[str, Any]) -> bytes:
        return self._parts[data['from'] : data['to']]

    def _mime(self, data: dict[str, Any]) -> Any:
        parsed: Any = message_from_bytes(self._bytes(data), policy=policy.default if data['modern'] else policy.compat32)
        if not data['base']:
            return parsed
        part = MIMEBase.__new__(MIMEBase)  # Django attaches a MIMEBase as it is
        vars(part).update(vars(parsed))
        return part

    def _charset(self, data: dict[str, Any]) -> Charset:
        charset = Charset()
        vars(charset).update(data['fields'])
        return charset

    def _dict(self, data: dict[str, Any]) -> dict[Any, Any]:
        return {self.value(key): self.value(value) for key, value in data['items']}

    def _tuple(self, data: dict[str, Any]) -> tuple[Any, ...]:
        path = data['class']
        # without the module in which it is named, a tuple has no names here; most backends need none
        kind = _found(path, tuple) if path is not None and _module_of(path) in sys.modules else tuple
        made: tuple[Any, ...] = tuple.__new__(kind, [self.value(each) for each in data['items']])
        return made


def _path(kind: type) -> str:
    if '<' in kind.__qualname__:
        raise TypeError('%s.%s: a class of mail in the background is found by its name in its module' % (kind.__module__, kind.__qualname__))
    return '%s:%s' % (kind.__module__, kind.__qualname__)


def _module_of(path: str) -> str:
    return path.partition(':')[0]


def _found(path: str, base: type) -> Any:
    """Whoever enqueues has chosen the path: nothing is imported, which may be a file in the spool, and nothing but such a class is called."""
    found: Any = sys.modules.get(_module_of(path))
    if found is None:
        raise AbortException('%s: its module is not loaded in the daemon; import it where the tasks are' % path)
    for name in path.partition(':')[2].split('.'):
        found = getattr(found, name, None)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise AbortException('%s is no %s' % (path, base.__name__))
    return found
