import { join } from 'node:path'
import { describe } from 'node:test'
import { virtualenv } from '../helpers/python.js'
import { type Requirement, skipUnless } from '../helpers/requires.js'
import { Snippets } from './python-snippets.js'

/** A real mail server, in a thread of the process, which keeps what it gets and refuses what it is told to. */
const PRELUDE = `
import asyncio, email.generator, io, smtplib, warnings
warnings.simplefilter('ignore', DeprecationWarning)
from django.conf import settings
if not settings.configured:
    settings.configure(INSTALLED_APPS=['spoold.contrib.django'], SECRET_KEY='x', USE_TZ=True, EMAIL_HOST='127.0.0.1', DEFAULT_FROM_EMAIL='shop@example.com',
        DATABASES={}, SPOOLD_ACTUAL_EMAIL_BACKEND='django.core.mail.backends.smtp.EmailBackend')
    import django
    django.setup()
from aiosmtpd.smtp import SMTP
from django.core import mail
from django.core.mail import EmailMessage, EmailMultiAlternatives
from django.core.mail.backends.smtp import EmailBackend
from django.test import override_settings
from spoold import AbortException, JobStatus
from spoold.contrib.django import on_commit, spoold
from spoold.contrib.django.mail import BackgroundEmailBackend
from spoold.contrib.django.tasks import send_email
from spoold.testing import fake
class Keeps:
    def __init__(self): self.got, self.rcpt, self.data, self.sessions = [], {}, [], set()
    async def handle_RCPT(self, server, session, envelope, address, options):
        answers = self.rcpt.get(address)
        if answers: return answers.pop(0)
        envelope.rcpt_tos.append(address)
        return '250 OK'
    async def handle_DATA(self, server, session, envelope):
        self.sessions.add(session)
        if self.data: return self.data.pop(0)
        self.got.append((envelope.mail_from, envelope.rcpt_tos, envelope.content))
        return '250 OK'
if 'server' not in sys.modules:
    keeps = Keeps()
    loop = asyncio.new_event_loop()
    serving = loop.run_until_complete(loop.create_server(lambda: SMTP(keeps, loop=loop), '127.0.0.1', 0))
    keeps.port = serving.sockets[0].getsockname()[1]
    threading.Thread(target=loop.run_forever, daemon=True).start()
    sys.modules['server'] = keeps
keeps = sys.modules['server']
settings.EMAIL_PORT = keeps.port
keeps.got.clear(); keeps.rcpt.clear(); keeps.data.clear(); keeps.sessions.clear()
def fixed():
    """The boundaries of the next message."""
    numbers = itertools.count()
    email.generator.Generator._make_boundary = classmethod(lambda cls, text=None: '=====%d==' % next(numbers))
def comparable(content):
    """Without its date and its id."""
    head, _, body = content.partition(b'\\r\\n\\r\\n')
    lines = [line for line in head.split(b'\\r\\n') if not line.lower().startswith((b'date:', b'message-id:'))]
    names = [line.split(b':')[0].lower() for line in head.split(b'\\r\\n')]
    assert names.count(b'date') == names.count(b'message-id') == 1, names
    import re  # a message in it has its own
    return lines, re.sub(rb'(?im)^(date|message-id):.*$', b'', body)
def background(*messages):
    with fake(spoold) as kit:
        assert BackgroundEmailBackend().send_messages(messages) == len(messages)
        fixed()
        return kit.drain(), kit
def simple(to=('joe@example.com',), **options): return EmailMessage('hello', 'text', to=list(to), **options)
`

const KINDS = `
import collections
from email.charset import Charset, QP
from email.message import EmailMessage as Modern, MIMEPart
from email.mime.audio import MIMEAudio
from email.mime.base import MIMEBase
from email.mime.image import MIMEImage
from email.mime.text import MIMEText
from django.utils.functional import lazy
GIF = b'GIF89a' + bytes(range(256)) * 50
def many(*args, **options): return EmailMultiAlternatives('hello', 'text', to=['joe@example.com'], **options)
def html(message=None): message = message or many(); message.attach_alternative('<p>hello</p>', 'text/html'); return message
def attached(*what, message=None): message = message or simple(); message.attach(*what); return message
def with_(message, **fields): vars(message).update(fields); return message
def inline_image():
    image = MIMEImage(GIF, 'gif'); image.add_header('Content-ID', '<logo>'); image.add_header('Content-Disposition', 'inline')
    return with_(attached(image, message=html()), mixed_subtype='related')
def part(): part = MIMEBase('application', 'x-own'); part.set_payload('own'); part['X-Part'] = 'é'; return part
def modern(): part = MIMEPart(); part.set_content(GIF, 'image', 'gif', cid='<x>', disposition='inline'); return part
def charset(): charset = Charset('utf-8'); charset.body_encoding = QP; return charset
class Own(EmailMessage):
    def message(self, **options): message = super().message(**options); message['X-Own'] = self.own; return message
Named = collections.namedtuple('Named', 'filename content mimetype', module='own_message')
class WithNames(EmailMessage):
    def message(self, **options): message = super().message(**options); message['X-Own'] = self.named.content; return message
sys.modules['own_message'] = type(sys)('own_message')
for each in (Own, WithNames, Named): setattr(sys.modules['own_message'], each.__name__, each); each.__module__ = 'own_message'
Elsewhere = collections.namedtuple('Elsewhere', 'filename content mimetype', module='not_loaded')
kinds = {
    'text': simple, 'empty': lambda: EmailMessage('', '', to=['joe@example.com']),
    'from': lambda: simple(from_email='Jane <jane@example.com>'), 'from with umlauts': lambda: simple(from_email='Jäne <jane@example.com>'),
    'a From header': lambda: simple(from_email='bounce@example.com', headers={'From': 'jane@example.com'}),
    'several recipients': lambda: simple(to=['joe@example.com', 'Jö <jo@example.com>']), 'cc': lambda: simple(cc=['a@example.com', 'b@example.com']),
    'bcc': lambda: simple(bcc=['hidden@example.com']), 'only bcc': lambda: EmailMessage('hello', 'text', bcc=['hidden@example.com']),
    'a To header': lambda: simple(headers={'To': 'list@example.com'}),
    'reply-to': lambda: simple(reply_to=['reply@example.com', 'Ö <o@example.com>']),
    'headers': lambda: simple(headers={'X-One': '1', 'List-Id': 'é', 'X-Number': '5' if django.VERSION >= (6,) else 5, 'X-Lazy': lazy(lambda: 'lazy', str)()}),
    'a domain of its own': lambda: simple(to=['joe@exämple.com']),
    'a subject with umlauts': lambda: EmailMessage('Grüße ' * 20, 'text', to=['joe@example.com']),
    'a lazy subject': lambda: EmailMessage(lazy(lambda: 'lazy', str)(), lazy(lambda: 'body', str)(), to=['joe@example.com']),
    'a body with umlauts and dots': lambda: EmailMessage('x', '.\\n.äöü\\nFrom here\\n' + '☃' * 300, to=['joe@example.com']),
    'long lines': lambda: EmailMessage('x', 'long ' * 1000, to=['joe@example.com']),
    'html alone': lambda: with_(simple(), content_subtype='html'), 'latin-1': lambda: with_(EmailMessage('é', 'é', to=['joe@example.com']), encoding='iso-8859-1'),
    'alternatives': html, 'two alternatives': lambda: (lambda m: (m.attach_alternative('{}', 'application/json'), m)[1])(html()),
    'a text attachment': lambda: attached('notes.txt', 'notes äöü', 'text/plain'), 'bytes': lambda: attached('logo.gif', GIF, 'image/gif'),
    'a guessed type': lambda: attached('data.csv', b'a,b'), 'text that is none': lambda: attached('data.txt', bytes(range(256)), 'text/plain'),
    'a name with umlauts': lambda: attached('größe.pdf', GIF), 'without a name': lambda: attached(None, 'x', 'text/x-own'),
    'a megabyte': lambda: attached('big.bin', os.urandom(1 << 20), 'application/octet-stream', message=html()),
    'alternatives and attachments': lambda: attached('a.txt', 'a', message=html()), 'a message in a message': lambda: attached('mail.eml', simple(), 'message/rfc822'),
    'a named tuple': lambda: with_(WithNames('x', 'y', to=['joe@example.com']), named=Named('a', 'b', 'c')),
    'a named tuple of a module that the daemon has not loaded': lambda: with_(simple(), attachments=[Elsewhere('a.txt', 'a', 'text/plain')]),
    'a class of its own': lambda: with_(Own('x', 'y', to=['joe@example.com']), own='own'),
}
if django.VERSION < (6,):
    kinds.update({'an inline image': inline_image, 'a MIME part': lambda: attached(part()), 'audio': lambda: attached(MIMEAudio(b'RIFF', 'wav')),
        'a charset': lambda: with_(EmailMessage('x', 'é' * 90, to=['joe@example.com']), encoding=charset()),
        'a MIME text': lambda: attached(MIMEText('ä', 'x-own', 'utf-8'))})
else:
    kinds.update({'an inline image': lambda: attached(modern(), message=html()), 'a MIME part': lambda: attached(modern())})
`

const SNIPPETS: Readonly<Record<string, string>> = {
  'aborts a task that names anything but a loaded class of mail, and calls nothing': `
import json
from spoold.contrib.django.mail import unpack
called = []
sys.modules['called'] = type(sys)('called'); sys.modules['called'].it = called.append
def naming(path, mark):
    named = {'#': mark, 'class': path, 'fields': {}, 'items': ['by a stranger']}
    data = named if mark == 'message' else {'#': 'message', 'class': 'django.core.mail:EmailMessage', 'fields': {'subject': named}}
    return json.dumps(data).encode()
for path in ('called:it', 'os:path.join', 'django.core.mail.message:mimetypes.os.getenv', 'builtins:str'):
    raises(AbortException, path + ' is no tuple', lambda: unpack(naming(path, 'tuple')))
    raises(AbortException, path + ' is no EmailMessage', lambda: unpack(naming(path, 'message')))
assert called == []
raises(AbortException, 'this:x: its module is not loaded in the daemon', lambda: unpack(naming('this:x', 'message')))
assert 'this' not in sys.modules`,
  'delivers what the actual backend sends, for 30 kinds of message': `
import django
${KINDS}
assert len(kinds) >= 30, len(kinds)
for name, kind in kinds.items():
    keeps.got.clear()
    message = kind()
    boundary = random_state = None
    fixed(); assert EmailBackend().send_messages([message]) == 1, name
    runs, _ = background(message)
    assert [each.error for each in runs] == [None], (name, runs)
    (a_from, a_to, a), (b_from, b_to, b) = keeps.got
    assert (a_from, a_to) == (b_from, b_to), (name, a_to, b_to)
    assert comparable(a) == comparable(b), '%s: %r\\n%r' % (name, a[:3000], b[:3000])`,
  'schedules a task per message with recipients, or raises in the view and stores none if one is wrong': `
with fake(spoold) as kit:
    assert BackgroundEmailBackend().send_messages([simple(), simple(to=[]), simple()]) == 2
    jobs = kit.scheduled(send_email)
    assert len(jobs) == 2 and jobs[0].task_kwargs == {'subject': 'hello', 'to': ['joe@example.com']}
    assert BackgroundEmailBackend().send_messages([]) == 0 and len(kit.scheduled()) == 2
    from django.core.mail import BadHeaderError
    bad = simple(); bad.subject = 'a\\nb'
    raises(ValueError, '', lambda: BackgroundEmailBackend().send_messages([simple(), bad]))
    assert BackgroundEmailBackend(fail_silently=True).send_messages([bad]) == 0
    odd = simple(); odd.tags = {1}
    raises(TypeError, 'EmailMessage.tags: mail in the background keeps text', lambda: BackgroundEmailBackend().send_messages([odd]))
    raises(ValueError, 'leave username and password out', lambda: BackgroundEmailBackend(username='joe'))
    assert len(kit.scheduled()) == 2
    with override_settings(EMAIL_BACKEND='spoold.contrib.django.mail.BackgroundEmailBackend'):
        assert mail.send_mail('s', 'b', None, ['joe@example.com']) == 1
    assert len(kit.scheduled()) == 3`,
  'opens one connection per task, with a timeout, and sends the same id and date at each attempt': `
keeps.data[:] = ['451 later']
seen = []
class Watched(EmailBackend):
    def open(self): seen.append(self.timeout); return super().open()
sys.modules['watched'] = type(sys)('watched'); sys.modules['watched'].Watched = Watched
with override_settings(SPOOLD_ACTUAL_EMAIL_BACKEND='watched.Watched'), fake(spoold) as kit:
    BackgroundEmailBackend().send_messages([simple(), simple()])
    first = kit.scheduled()[0].body
    runs = kit.drain(future=True)
assert [type(each.error).__name__ for each in runs] == ['SMTPDataError', 'NoneType', 'NoneType'], runs
assert runs[0].job.status is JobStatus.WAITING and len(keeps.sessions) == 3 and set(seen) == {60}, seen
ids = {line for _, _, content in keeps.got for line in content.split(b'\\r\\n') if line.startswith((b'Message-ID', b'Date'))}
assert len(keeps.got) == 2 and all(line.split(b': ')[1] in first.replace(b'\\\\u003c', b'<') for line in ids if line in keeps.got[1][2]), ids`,
  'reports a failed mail by mail only once, even if recipients of the report are refused': `
import django, logging
from django.utils.log import AdminEmailHandler
people = ['one@example.com', 'two@example.com']
with override_settings(EMAIL_BACKEND='spoold.contrib.django.mail.BackgroundEmailBackend', ADMINS=people if django.VERSION >= (6,) else [('x', each) for each in people]):
    handler = AdminEmailHandler(); handler.setLevel(logging.ERROR)
    logging.getLogger().addHandler(handler)
    try:
        for refused in (people, people[:1], []):
            keeps.rcpt = {each: ['550 no'] * 50 for each in (*refused, 'joe@example.com')}
            with fake(spoold) as kit:
                BackgroundEmailBackend().send_messages([simple()])
                runs = kit.drain(max_runs=20)
            told = [each.job.task_kwargs['to'] for each in runs[1:]]
            assert told == [people] * (2 if len(refused) == 1 else 1), told
            assert [each.error is None for each in runs] == {2: [False, False], 1: [False, True, False], 0: [False, True]}[len(refused)], runs
    finally:
        logging.getLogger().removeHandler(handler)`,
  'retries after a temporary failure, and buries the task with its reason after a permanent one': `
for answer, kind, status in (('451 greylisted', 'SMTPDataError', 'WAITING'), ('554 no spam', 'AbortException', 'FAILED')):
    keeps.data[:] = [answer]
    runs, kit = background(simple())
    assert type(runs[0].error).__name__ == kind and runs[0].job.status.name == status and answer[4:] in str(runs[0].error), runs
for answer, status in (('450 busy', 'WAITING'), ('550 no such user', 'FAILED')):
    keeps.rcpt['joe@example.com'] = [answer]
    runs, kit = background(simple())
    assert runs[0].job.status.name == status and answer[4:] in str(runs[0].error), runs
with override_settings(EMAIL_PORT=1):
    runs, kit = background(simple())
    assert isinstance(runs[0].error, ConnectionRefusedError) and runs[0].job.status is JobStatus.WAITING
assert keeps.got == []`,
  'gives up a server that is silent at the start or in the middle of a mail, and retries': `
import socket
def stalls(*says):
    server = socket.create_server(('127.0.0.1', 0))
    def serve():
        client, _ = server.accept()
        for words in says: client.sendall(words); client.recv(1000)
        client.recv(1000)
        while client.recv(1000): pass
    threading.Thread(target=serve, daemon=True).start()
    return server
for says in ((), (b'220 hello\\r\\n', b'250 hello\\r\\n', b'250 go on\\r\\n')):
    with stalls(*says) as server, override_settings(EMAIL_PORT=server.getsockname()[1], EMAIL_TIMEOUT=0.2):
        began = time.monotonic()
        runs, kit = background(simple())
    assert isinstance(runs[0].error, (OSError, smtplib.SMTPServerDisconnected)) and 'timed out' in str(runs[0].error), runs
    assert runs[0].job.status is JobStatus.WAITING and time.monotonic() - began < 30`,
  'sends a mail once to the accepted recipients, and retries only those that are refused for now': `
keeps.rcpt.update({'busy@example.com': ['450 busy', '450 busy'], 'gone@example.com': ['550 gone'] * 2, 'later@example.com': ['451 later']})
everybody = ['joe@example.com', 'busy@example.com', 'gone@example.com', 'later@example.com', 'jane@example.com']
with fake(spoold) as kit:
    BackgroundEmailBackend().send_messages([simple(to=everybody)])
    runs = kit.drain()
    assert [each.job.status.name for each in runs] == ['SUCCEEDED', 'FAILED'], runs
    assert runs[1].job.task_kwargs['only'] == ['gone@example.com'] and '550' in str(runs[1].error)
    assert kit.waiting()[0].task_kwargs['only'] == ['busy@example.com', 'later@example.com'] and kit.waiting()[0].at > kit.now()
    kit.drain(future=True)
    assert kit.waiting() == [] and len(kit.failed()) == 1
assert [to for _, to, _ in keeps.got] == [['joe@example.com', 'jane@example.com'], ['later@example.com'], ['busy@example.com']], keeps.got
assert len({content for _, _, content in keeps.got}) == 1 and b'To: joe@example.com, busy@example.com' in keeps.got[2][2].replace(b'\\r\\n', b'')`,
  'sends nothing twice if something fails after the server has accepted the mail': `
quit = smtplib.SMTP.quit
def broken(self): quit(self); raise smtplib.SMTPResponseException(421, b'too late')
smtplib.SMTP.quit = broken
try: runs, kit = background(simple())
finally: smtplib.SMTP.quit = quit
assert [each.error for each in runs] == [None] and len(keeps.got) == 1
keeps.rcpt['busy@example.com'] = ['450 busy']
import spoold.contrib.django as module
place = spool()
with fake(spoold) as kit:
    BackgroundEmailBackend().send_messages([simple(to=['joe@example.com', 'busy@example.com'])])
    store = kit.store; kit.store = lambda packets: (_ for _ in ()).throw(OSError(28, 'full'))
    runs = kit.drain()
assert isinstance(runs[0].error, AbortException) and 'busy@example.com: 450 busy' in str(runs[0].error), runs
assert len(keeps.got) == 2`,
}

const VERSIONS: ReadonlyArray<readonly [name: string, need: Requirement, venv: string]> = [
  ['Django 5.2', 'venv:contrib', 'contrib'],
  ['Django 3.2', 'venv:contrib-oldest', 'contrib-oldest'],
  ['Django 6.1', 'venv:contrib-newest', 'contrib-newest'],
]
for (const [name, need, venv] of VERSIONS)
  describe(`mail in the background, ${name}`, { skip: skipUnless(need) }, () => {
    const python = new Snippets(PRELUDE, join(virtualenv(venv), 'bin/python'))
    for (const [title, code] of Object.entries(SNIPPETS)) python.it(title, code)
  })
