import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { formatProblem } from '#src/formats/ini/setting.js'
import { checkGiven, type Given } from '../ini/reading.js'

/** The options whose file or address only one of two programs can have, each with a value of the ini. */
const SITES = {
  socket: 'site.sock',
  pidfile: 'site.pid',
  'safe-pidfile': 'safe.pid',
  logto: 'site.log',
  daemonize: 'back.log',
  stats: '127.0.0.1:9142',
  'master-fifo': 'site.fifo',
  vacuum: 'true',
} as const
type Name = keyof typeof SITES
const ALL = Object.keys(SITES) as Name[]
const lines = (names: readonly Name[]) => names.map(name => `${name} = ${SITES[name]}\n`).join('')

function taken(given: Given): Name[] {
  const { options } = checkGiven(given)
  const { socket, pidfile, safePidfile, logto, daemonize, stats, masterFifo, vacuum } = options
  const has: Readonly<Record<Name, boolean>> = {
    socket: socket.length > 0,
    pidfile: pidfile !== null,
    'safe-pidfile': safePidfile !== null,
    logto: logto !== null,
    daemonize: daemonize !== null,
    stats: stats !== null,
    'master-fifo': masterFifo.length > 0,
    vacuum,
  }
  return ALL.filter(name => has[name])
}

interface Row {
  readonly ini: string
  readonly argv?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly files?: Readonly<Record<string, string>>
  /** The options that spoold takes with `spooler-take = all`, as before it knew sites; and those that it takes without. */
  readonly before: readonly Name[]
  readonly now: readonly Name[]
}

const PYTHON = 'spooler-python-import = tasks\n'
const ROWS: Readonly<Record<string, Row>> = {
  'a site on a socket of its own': {
    ini: `module = app\n${lines(ALL)}`,
    before: ALL,
    now: [],
  },
  'a site on a port, behind no other server': {
    ini: `http-socket = :8080\nwsgi-file = app.py\n${lines(['pidfile', 'logto'])}`,
    before: ['pidfile', 'logto'],
    now: [],
  },
  'a Perl site behind a server that speaks FastCGI': {
    ini: `fastcgi-socket = app.sock\npsgi = app.psgi\n${lines(['master-fifo', 'stats'])}`,
    before: ['stats', 'master-fifo'],
    now: [],
  },
  "an Emperor's vassal, whose address and application come from a template": {
    ini: `include = vassal.ini\n${PYTHON}${lines(['stats'])}`,
    files: { 'vassal.ini': `[uwsgi]\nuwsgi-socket = %n.sock\nrack = config.ru\nvacuum = true\n` },
    before: ['socket', 'stats', 'vacuum'],
    now: [],
  },
  'an application that nothing serves: it brings its handlers': {
    ini: `module = app\n${lines(['pidfile', 'logto', 'stats', 'master-fifo', 'vacuum'])}`,
    before: ['pidfile', 'logto', 'stats', 'master-fifo', 'vacuum'],
    now: ['pidfile', 'logto', 'stats', 'master-fifo', 'vacuum'],
  },
  "the manual's network spooler: an address, and no application": {
    ini: `${PYTHON}${lines(['socket', 'pidfile', 'vacuum'])}`,
    before: ['socket', 'pidfile', 'vacuum'],
    now: ['socket', 'pidfile', 'vacuum'],
  },
  'an init script, which says on the command line where the pid and the log go': {
    ini: `module = app\n${lines(['socket', 'pidfile', 'logto'])}`,
    argv: ['--pidfile', 'spoold.pid', '--daemonize', 'spoold.log', '--ini', 'app.ini'],
    before: ['socket', 'pidfile', 'logto', 'daemonize'],
    now: ['pidfile', 'daemonize'],
  },
  'a container whose environment says where the statistics go': {
    ini: `module = app\n${lines(['socket', 'stats'])}`,
    env: { SPOOLD_STATS: ':9143' },
    before: ['socket', 'stats'],
    now: ['stats'],
  },
  "sections, of which uWSGI's own is not read": {
    ini: `module = app\n${lines(['logto'])}\n[web]\nini = app.ini:uwsgi\n${lines(['socket', 'pidfile'])}`,
    before: ['logto'],
    now: ['logto'],
  },
  'a site whose log and pidfile spoold is to take': {
    ini: `module = app\nspooler-take = logto, pidfile\n${lines(ALL)}`,
    before: ALL,
    now: ['pidfile', 'logto'],
  },
  'a site of which spoold is to take everything': {
    ini: `module = app\nspooler-take = all\n${lines(ALL)}`,
    before: ALL,
    now: ALL,
  },
}

describe('an ini that a web site may share', () => {
  for (const [title, { ini, argv, env, files, before, now }] of Object.entries(ROWS))
    it(title, () => {
      const given = (text: string): Given => ({
        files: { 'app.ini': `[uwsgi]\nspooler = sp\n${text}`, 'tasks.py': '', 'app.py': '', ...files },
        ...(argv === undefined ? {} : { argv }),
        ...(env === undefined ? {} : { env }),
      })
      assert.deepEqual(taken(given(ini)), now)
      assert.deepEqual(taken(given(`spooler-take = all\n${ini}`)), before)
    })

  it('says what is left to uWSGI, why, where it stands, and the line that takes it back', () => {
    const checked = checkGiven({
      files: {
        'app.ini': `[uwsgi]\nspooler = sp\nmodule = app\nsocket = app.sock\npidfile = app.pid\nlogto = app.log\n`,
        'app.py': '',
      },
    })
    const left = checked.problems.warnings.map(formatProblem).filter(text => text.includes('left to uWSGI'))
    assert.deepEqual(left, [
      'app.ini:4: warning: left to uWSGI, because module (app.ini:3) is served on socket (app.ini:4): ' +
        'socket (app.ini:4), pidfile (app.ini:5), logto (app.ini:6); ' +
        'to have spoold take them: spooler-take = socket, pidfile, logto (or all)',
    ])
  })

  it('refuses a name in spooler-take that is none of the options left to uWSGI', () => {
    const { problems } = checkGiven({
      files: {
        'app.ini': `[uwsgi]\nspooler = sp\nspooler-take = logfile stats-server\n${PYTHON}`,
        'tasks.py': '',
      },
    })
    assert.match(
      problems.errors.map(formatProblem).join('\n'),
      /^app\.ini:3: error: spooler-take: expected socket, pidfile, .*, or all, got "logfile"$/,
    )
  })
})
