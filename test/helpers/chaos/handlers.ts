import { ROOT } from '../workspace.js'

/** The files in which the handlers of all languages record what they do. */
export interface Witnesses {
  readonly spool: string
  /**
   * One line per act, with O_APPEND: `want N PID ATTEMPT`, `begin N PID`, `end N PID`, `crash N PID`, `double N PID`. For an
   * innocent task, counted crashes are the only failed runs.
   */
  readonly journal: string
  /** A directory with a file per task, which the process that runs the task keeps locked. */
  readonly fences: string
}

/** How long a run waits for the fence: the kernel may not have finished killing the last holder. */
const FENCE_MS = 3000

/**
 * The handler in JavaScript. Each run locks its task's fence; the kernel releases the lock when the process is dead. `ms` is how
 * long a task takes, `how` whether it blocks meanwhile, `guilty` how it kills its process.
 *
 * @param promisesMs a task without `ms` also returns a promise, which takes up to this time
 */
export const CHAOS_JS = ({ journal, fences }: Witnesses, promisesMs?: number) => `
import { closeSync, openSync, writeSync } from 'node:fs'
import { createRequire } from 'node:module'
const fcntl = createRequire(${JSON.stringify(ROOT)})('koffi').load(null).func('int fcntl(int fd, int command, void *lock)')
const WRITE_LOCK = Buffer.from(new Int16Array([1, ...Array(15).fill(0)]).buffer) // struct flock, all of the file
const tryLock = fd => fcntl(fd, 37 /* F_OFD_SETLK */, WRITE_LOCK) === 0
const journal = openSync(${JSON.stringify(journal)}, 'a')
const line = (word, env, more = '') => writeSync(journal, word + ' ' + env.n + ' ' + process.pid + ' ' + more + '\\n')
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
const block = ms => { for (const end = performance.now() + ms; performance.now() < end;); }
const crash = { kill: () => process.kill(process.pid, 'SIGKILL'), exit: () => process.exit(1), abort: () => process.abort() }
const run = (env, task, fence) => {
  line('begin', env)
  const end = () => {
    line('end', env)
    closeSync(fence)
    return task.SPOOL_OK
  }
  if (env.guilty !== undefined) {
    line('crash', env)
    crash[env.guilty]()
    return sleep(60_000).then(end)
  }
  if (env.ms === undefined) return ${promisesMs === undefined ? 'end()' : `sleep(Math.random() * ${promisesMs}).then(end)`}
  if (env.how !== 'block') return sleep(Number(env.ms)).then(end)
  block(Number(env.ms))
  return end()
}
const wait = async (env, task, fence) => {
  for (const deadline = performance.now() + ${FENCE_MS}; !tryLock(fence); await sleep(1))
    if (performance.now() > deadline) {
      line('double', env)
      break
    }
  return run(env, task, fence)
}
export default (env, task) => {
  line('want', env, task.attempt)
  const fence = openSync(${JSON.stringify(`${fences}/`)} + env.n, 'a+')
  return tryLock(fence) ? run(env, task, fence) : wait(env, task, fence)
}`

/** The handler for our Python host, and for a real uWSGI, which runs no guilty tasks. */
export const CHAOS_PYTHON = ({ spool, journal, fences }: Witnesses, mayCrash = true) => `
import fcntl, json, os, struct, time, uwsgi
journal = os.open(${JSON.stringify(journal)}, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
LOCK = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0)
def line(word, n, more=''): os.write(journal, ('%s %s %d %s\\n' % (word, n, os.getpid(), more)).encode())
def attempt(name):
    try:
        with open(${JSON.stringify(`${spool}/.spoold/records/`)} + name + '.json') as record: return json.load(record)['crashes'] + 1
    except OSError: return 1
def try_lock(fence):
    try:
        fcntl.fcntl(fence, 37, LOCK)  # F_OFD_SETLK
        return True
    except OSError: return False
def spooler(env):
    env = dict([text.decode() if isinstance(text, bytes) else text for text in pair] for pair in env.items())
    n = env['n']
    line('want', n, attempt(env['spooler_task_name']))
    fence = os.open(${JSON.stringify(`${fences}/`)} + n, os.O_CREAT | os.O_RDWR, 0o600)
    deadline = time.monotonic() + ${FENCE_MS / 1000}
    while not try_lock(fence):
        if time.monotonic() > deadline:
            line('double', n)
            break
        time.sleep(0.001)
    line('begin', n)
    if 'guilty' in env:
        if not ${mayCrash ? 'True' : 'False'}:
            os.close(fence)
            return uwsgi.SPOOL_RETRY
        line('crash', n)
        os.kill(os.getpid(), 9) if env['guilty'] == 'kill' else os._exit(1)
    if 'ms' in env: time.sleep(int(env['ms']) / 1000)
    line('end', n)
    os.close(fence)
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
`

/** The handler for spooler-exec. A guilty task kills its worker. Only the shell holds the fence: its children close it. */
export const CHAOS_SHELL = ({ spool, journal, fences }: Witnesses) => `
n=$SPOOL_n
line() { echo "$1 $n $$ $2" >> '${journal}'; }
record='${spool}/.spoold/records/'$SPOOL_task_name.json
crashes=0
[ -e "$record" ] && crashes=$(sed 's/.*"crashes":\\([0-9]*\\).*/\\1/' "$record")
line want $((crashes + 1))
exec 9>>'${fences}/'$n
flock -n 9 || flock -w ${FENCE_MS / 1000} 9 || line double
line begin
if [ -n "$SPOOL_guilty" ]; then
  line crash
  p=$PPID
  while [ "$p" -gt 1 ]; do
    case $(readlink /proc/$p/exe) in */node*) kill -9 $p; sleep 60 9>&- ;; esac
    p=$(cut -d ' ' -f 4 /proc/$p/stat)
  done
  exit 1
fi
[ -n "$SPOOL_ms" ] && sleep $(printf %04d $SPOOL_ms | sed 's/...$/.&/') 9>&-
line end
`

/** A mule of a real uWSGI that enqueues, and notes the tasks that `uwsgi.spool` accepted. */
export const ENQUEUING_MULE = (spool: string, acknowledged: string, pauseMs: number) => `
import os, time, uwsgi
acknowledged = os.open(${JSON.stringify(acknowledged)}, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
i = 0
while True:
    i += 1
    vars = {b'n': b'u%d-l' % i, b'spooler': ${JSON.stringify(spool)}.encode()}
    if i % 4 == 0: vars[b'ms'] = b'20'
    if uwsgi.spool(vars): os.write(acknowledged, vars[b'n'] + b'\\n')
    time.sleep(${pauseMs / 1000})
`
