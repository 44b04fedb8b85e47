/**
 * Named tasks that journal the begin and end of each run, by one append each: `begin KIND N PID MS`. `few` is limited,
 * `once` runs at most once, `tick` is periodic, and `poison` kills its process.
 */
export const NODE_TASKS = (journal: string, limit: number) => `
import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Tasks } from 'spoold'
const now = () => Math.round(performance.timeOrigin + performance.now())
const tell = (word, kind, n) =>
  appendFileSync(${JSON.stringify(journal)}, [word, kind, n, process.pid, now()].join(' ') + '\\n')
const run = kind => async (n, ms) => {
  tell('begin', kind, n)
  await sleep(ms)
  tell('end', kind, n)
}
export const tasks = new Tasks({ maxRetries: Infinity, retryDelay: 0 })
tasks.task('plain', run('plain'))
tasks.task('few', { maxConcurrency: ${limit} }, run('few'))
tasks.task('once', { maxRetries: 0 }, run('once'))
tasks.task('poison', n => {
  tell('begin', 'poison', n)
  process.kill(process.pid, 'SIGKILL')
})
tasks.task('tick', { periodicity: '1s', maxRetries: 0 }, () => run('tick')('tick', 20))`

export const PYTHON_TASKS = (journal: string) => `
import os, time
from spoold import Tasks
tasks = Tasks(max_retries=1000)
def tell(word, n):
    line = '%s snake %s %d %d\\n' % (word, n, os.getpid(), time.time() * 1000)
    fd = os.open(${JSON.stringify(journal)}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, line.encode())
    os.close(fd)
@tasks.task(name='snake')
def snake(n, ms):
    tell('begin', n)
    time.sleep(ms / 1000)
    tell('end', n)`

/**
 * Stores a named task of a random kind every so often, as another user than root, and journals `ack KIND N` for each
 * that is acknowledged, or `refused`. Ends when a file `enough` exists.
 */
export const PRODUCER = `
import { appendFileSync, existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
const { journal, enough, kinds, user, pauseMs } = JSON.parse(process.argv[1])
process.setgroups([])
process.setgid(user)
process.setuid(user)
const { spool } = await import('spoold')
const sum = kinds.reduce((all, { weight }) => all + weight, 0)
const pick = left => kinds.find(({ weight }) => (left -= weight) < 0) ?? kinds[0]
for (let i = 0; !existsSync(enough); i++) {
  const { kind, spooler, longestMs } = pick(Math.random() * sum)
  const n = kind + '.' + i
  const args = JSON.stringify([n, Math.round(Math.random() * longestMs)])
  const line = await spool({ task: kind, args, n }, { spooler }).then(() => 'ack ' + kind + ' ' + n, () => 'refused')
  appendFileSync(journal, line + '\\n')
  await sleep(pauseMs)
}`
