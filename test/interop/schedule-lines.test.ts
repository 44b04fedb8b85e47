import assert from 'node:assert/strict'
import { utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import type { TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { withSignals } from '../helpers/signals.js'
import { asOptions, startUwsgi, UWSGIS } from '../helpers/uwsgi.js'
import { spoolDirectory } from '../helpers/workspace.js'

const INI = [
  'timer = 9 1',
  'cron = -1 -1 -1 -1 -1 echo from cron',
  'fs-signal = watched 1',
  'touch-signal = touched 1',
]
/** The lines about signals and schedules, without dates, pids and durations. */
const LINES = [
  /^\[uwsgi-signal\] signum 1 registered .*$/m,
  /^DATE - \[uwsgi-cron\] running ".*$/m,
  /^from cron$/m,
  /^\[uwsgi-cron\] command .* exited after .*$/m,
  /^DATE - \[uwsgi-fsmon\] detected event on .*$/m,
  /^DATE - \[uwsgi-touch-signal\] raising .*$/m,
  /^DATE - error managing signal 1 on spooler PID/m,
]

const normal = (output: string) =>
  output
    .replace(/^\w{3} \w{3} [ \d]{2} [\d:]{8} \d{4} - /gm, 'DATE - ')
    .replace(/(spooler|pid) \d+/g, '$1 PID')
    .replace(/after \d+ second/g, 'after N second')
    .replaceAll(/"[^"]*\/watched"/g, '"watched"')

/** Triggers each schedule, and returns the lines about it. */
async function linesOf(directory: string, program: TestProcess): Promise<string[]> {
  const touch = () => {
    for (const file of ['watched', 'touched'])
      utimesSync(join(directory, file), new Date(), new Date(Date.now() + 5000))
  }
  touch()
  for (const line of LINES) {
    const source = line.source.replaceAll('DATE', '[^\\n]*').replaceAll('PID', '\\d+')
    await program.waitFor(new RegExp(source, 'm'), 70_000)
  }
  return LINES.map(line => line.exec(normal(program.output))?.[0] ?? '')
}

describe('an ini with schedules', { concurrency: true }, () => {
  for (const uwsgi of UWSGIS)
    it(`logs the same lines as ${uwsgi.title}`, { skip: skipUnless(uwsgi.needs) }, async () => {
      const [spool, theirs] = [spoolDirectory(), spoolDirectory()]
      for (const directory of [dirname(spool), dirname(theirs)])
        for (const file of ['watched', 'touched']) writeFileSync(join(directory, file), '')
      const settings = Object.fromEntries(INI.map(line => line.split(' = ') as [string, string]))
      const peer = startUwsgi({
        uwsgi,
        spool: theirs,
        handler: `
def fail(num): raise Exception('no luck')
uwsgi.register_signal(1, 'spooler', fail)`,
        args: asOptions(settings),
      })
      const daemon = await withSignals(`registerSignal(1, 'spooler', () => { throw new Error('no luck') })`, {
        spool,
        ini: settings,
      })
      await peer.waitFor('spawned the uWSGI spooler on dir')
      await daemon.waitFor('this daemon fires the schedules')
      const [ours, reference] = await Promise.all([
        linesOf(dirname(spool), daemon),
        linesOf(dirname(theirs), peer),
      ])
      assert.deepEqual(ours, reference)
    })
})
