import assert from 'node:assert/strict'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { leftIn } from '../helpers/files.js'
import { Page } from '../helpers/markdown.js'
import { TestProcess } from '../helpers/process.js'
import { virtualenv } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { workspace } from '../helpers/workspace.js'
import { programs } from './named-host.js'

/** The program of section 7.2.1 of Spinach's manual. */
const MODULE = {
  'examples/flaskapp.py': `from flask import Flask
from spinach.contrib.flask_spinach import Spinach

app = Flask(__name__)
spinach = Spinach(app)

@spinach.task(name='say_hello')
def say_hello():
    print('Hello from a task')

@app.route('/')
def home():
    spinach.schedule('say_hello')
    return 'Hello from HTTP'
`,
}

/** The program of section 7.2.2. */
const FACTORY = {
  'examples/app.py': `from flask import Flask
from spinach import RedisBroker
from spinach.contrib.flask_spinach import Spinach

spinach = Spinach()

def create_app():
    app = Flask(__name__)
    app.config['SPINACH_BROKER'] = RedisBroker()
    spinach.init_app(app)

    from . import auth
    app.register_blueprint(auth.blueprint)
    spinach.register_tasks(app, auth.tasks)

    return app
`,
  'examples/auth.py': `from flask import Blueprint, jsonify
from spinach import Tasks

from .app import spinach

blueprint = Blueprint('auth', __name__)
tasks = Tasks()

@blueprint.route('/')
def create_user():
    spinach.schedule('send_welcome_email')
    return jsonify({'user_id': 42})

@tasks.task(name='send_welcome_email')
def send_welcome_email():
    print('Sending email...')
`,
}

/** The program of section 7.3 in a project, with what the manual leaves out. */
const PROJECT = {
  'manage.py': `import os, sys
os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'mysite.settings')
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
`,
  'mysite/settings.py': `from datetime import timedelta
from pathlib import Path
from spinach import RedisBroker

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = 'x'
ALLOWED_HOSTS = ['testserver']
ROOT_URLCONF = 'polls.urls'
USE_TZ = True
DEFAULT_AUTO_FIELD = 'django.db.models.AutoField'
DATABASES = {'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': BASE_DIR / 'db'}}

INSTALLED_APPS = (
    'django.contrib.sessions',
    'polls',
    'spinach.contrib.spinachd',
)

SPINACH_BROKER = RedisBroker()
EMAIL_BACKEND = 'spinach.contrib.spinachd.mail.BackgroundEmailBackend'
SPINACH_ACTUAL_EMAIL_BACKEND = 'django.core.mail.backends.console.EmailBackend'
SPINACH_CLEAR_SESSIONS_PERIODICITY = timedelta(weeks=1)
`,
  'polls/models.py': `from django.db import models

class Question(models.Model):
    pass
`,
  'polls/tasks.py': `from spinach import Tasks

from .models import Question

tasks = Tasks()

@tasks.task(name='polls:close_poll')
def close_poll(question_id: int):
    Question.objects.get(pk=question_id).delete()
`,
  'polls/views.py': `from django.core.mail import send_mail
from django.http import HttpResponse
from django.shortcuts import get_object_or_404

from .models import Question
from .tasks import tasks

def close_poll_view(request, question_id):
    question = get_object_or_404(Question, pk=question_id)
    tasks.schedule('polls:close_poll', question.id)
    send_mail('Subject', 'Content', 'sender@example.com', ['receiver@example.com'])
    return HttpResponse()
`,
  'polls/urls.py': `from django.urls import path
from .views import close_poll_view
urlpatterns = [path('<int:question_id>', close_poll_view)]
`,
}

const PAGE = new Page('docs/python-migration.md')
const SCRIPT = PAGE.blocks.find(({ marks }) => marks.includes('file=spoold.sed'))?.text ?? ''

/** Returns what the page says below a heading: its commands, one after the other, its ini, and how many steps it has. */
function stepsOf(heading: string): { commands: string[]; ini: string; count: number } {
  const { text, blocks } = PAGE.section(4, heading)
  const [ini = ''] = blocks.filter(({ language }) => language === 'ini').map(block => block.text)
  const commands = blocks.filter(({ language }) => language === 'sh').map(block => block.text)
  return { commands, ini, count: [...text.matchAll(/^\d\. /gm)].length }
}

describe("Spinach's own examples, once moved", { skip: skipUnless('venv:contrib'), concurrency: 2 }, () => {
  const bin = programs()

  /**
   * Takes the steps of the page, with a visit before the daemon starts, and another one before the service does.
   * @returns what the daemon and the service printed
   */
  async function move(
    heading: string,
    files: Readonly<Record<string, string>>,
    { visit, ran, env = {} }: { visit: string; ran: RegExp; env?: Record<string, string> },
  ): Promise<{ daemon: string; service: string }> {
    const directory = workspace()
    const venv = join(directory, 'venv')
    symlinkSync(virtualenv('contrib'), venv)
    const { commands, ini, count } = stepsOf(heading)
    assert.ok(count > 0 && count <= 8, `${count} steps`)
    const all = { ...files, 'spoold.sed': SCRIPT, 'app.ini': ini }
    for (const [name, text] of Object.entries(all)) {
      mkdirSync(dirname(join(directory, name)), { recursive: true })
      const { FLASK_APP = 'examples.flaskapp' } = env
      writeFileSync(join(directory, name), text.replaceAll('examples.flaskapp', FLASK_APP))
    }
    const environment = {
      ...env,
      PATH: `${venv}/bin:${bin}:${process.env.PATH}`,
      PYTHONDONTWRITEBYTECODE: '1',
      // other tests share the environment: pip installs beside it, and without the framework, which is there
      PIP_TARGET: join(directory, 'installed'),
      PIP_NO_DEPS: '1',
      PIP_NO_INDEX: '1',
      PIP_NO_COMPILE: '1',
      PYTHONPATH: join(directory, 'installed'),
    }
    const visiting = `python -c '${visit}'\n`
    const script = [...commands.slice(0, -1), visiting, ...commands.slice(-1)].join('')
    const shell = new TestProcess('sh', ['-eu', '-c', script], {
      cwd: directory,
      env: environment,
      isGroup: true,
    })
    await shell.waitFor(ran, 60_000)
    const spool = join(directory, 'spool')
    process.kill(-shell.pid, 'SIGTERM')
    await shell.exited
    assert.deepEqual(leftIn(spool), [])
    const again = new TestProcess(join(venv, 'bin/python'), ['-c', visit], {
      cwd: directory,
      env: { ...environment, SPOOLD_ENQUEUE_TO: spool },
    })
    assert.equal(await again.code(), 0, again.output)
    const service = await spoold(['--drain', 'app.ini'], { cwd: directory, env: environment })
    assert.equal(service.code, 0, service.stderr)
    return { daemon: shell.output, service: service.stdout + service.stderr }
  }

  it('run their task in a Flask application of a single module', async () => {
    const visit = 'import examples.flaskapp as m; assert m.app.test_client().get("/").status_code == 200'
    const ran = /^Hello from a task$/m
    const { service } = await move('Flask', MODULE, { visit, ran, env: { FLASK_APP: 'examples.flaskapp' } })
    assert.match(service, ran)
  })

  it('run their task in a Flask factory with a subclass, whose broker is imported among other names', async () => {
    const app = FACTORY['examples/app.py']
      .replace('import RedisBroker', 'import signals, RedisBroker, Batch')
      .replace('spinach = Spinach()', 'class Site(Spinach):\n    pass\n\nspinach = Site()')
    const visit =
      'import examples.app as m; assert m.create_app().test_client().get("/").json == {"user_id": 42}'
    const ran = /^Sending email\.\.\.$/m
    const { service } = await move(
      'Flask',
      { ...FACTORY, 'examples/app.py': app },
      { visit, ran, env: { FLASK_APP: 'examples.app' } },
    )
    assert.match(service, ran)
  })

  it('run tasks, mail in the background and checks in a Django project', async () => {
    const visit = `import os; os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
import django; django.setup()
from django.core.management import call_command
from django.test import Client
call_command("migrate", run_syncdb=True, verbosity=0)
from polls.models import Question
assert Question.objects.count() == 0
assert Client().get("/%d" % Question.objects.create().pk).status_code == 200`
    const ran = /^To: receiver@example\.com$/m
    const { daemon, service } = await move('Django', PROJECT, { visit, ran })
    assert.match(daemon, /System check identified no issues/)
    assert.match(service, ran)
  })
})
