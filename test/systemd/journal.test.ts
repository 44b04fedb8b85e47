import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type DaemonSetup, startDaemon } from '../helpers/daemon.js'
import { drop, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { BIN, spoolDirectory } from '../helpers/workspace.js'

/** Runs a command whose standard error is the stream of the journal. */
const JOURNALLED = ['sh', '-c', 'JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec "$@"', 'sh'] as const

const NOISY = `export default (env, task) => {
  console.log('<0>printed\\nin two lines')
  if (env.fail) throw new Error('boom')
  return task.SPOOL_OK
}`

async function noisyDaemon(setup: Partial<DaemonSetup>) {
  const spool = spoolDirectory()
  const daemon = await startDaemon({
    spool,
    handler: NOISY,
    ...setup,
    ini: { 'spooler-max-attempts': 1, ...setup.ini },
  })
  drop(spool, 'a', packet({ fail: '1' }))
  await daemon.waitFor(/printed/)
  await daemon.waitFor(/boom[\s\S]*\n/)
  daemon.child.kill('SIGTERM')
  assert.equal(await daemon.code(), 0)
  return daemon.output.trimEnd().split('\n')
}

describe('a log that goes to the journal', () => {
  it('has the severity at the start of each line, which no handler can choose', async () => {
    const lines = await noisyDaemon({ under: JOURNALLED })
    assert.deepEqual(
      lines.filter(line => !/^<[346]>/.test(line)),
      [],
    )
    for (const line of [
      /^<6>\*\*\* spoold .* is running/,
      /^<6><0>printed$/,
      /^<6>in two lines$/,
      /^<3>.*boom/,
      /^<3> +at .*handler\.mjs/,
      /^<6>goodbye to uWSGI\.$/,
    ])
      assert.ok(
        lines.some(each => line.test(each)),
        `${line} in ${lines.join('\n')}`,
      )
  })

  it('has the severity before each object of a JSON log', async () => {
    const lines = await noisyDaemon({ under: JOURNALLED, ini: { 'log-format': 'json' } })
    const severities = { error: '3', warn: '4', info: '6' }
    for (const line of lines) {
      const [, severity, json = ''] = /^<(\d)>(.*)$/.exec(line) ?? []
      const { level }: { level: keyof typeof severities } = JSON.parse(json)
      assert.equal(severity, severities[level], line)
    }
    assert.ok(lines.some(line => line.startsWith('<3>')))
  })

  it('has the reason why the daemon does not start, with the severity of an error', async () => {
    const [command, ...args] = [
      ...JOURNALLED,
      process.execPath,
      BIN,
      '--spooler',
      '/nowhere/x',
      '--umask',
      '9',
    ]
    const spoold = new TestProcess(command ?? '', args)
    assert.equal(await spoold.code(), 1)
    const lines = spoold.output.trimEnd().split('\n')
    assert.match(spoold.output, /^<3>spoold: \[CONFIG_INVALID\]/)
    assert.ok(lines.length > 1 && lines.every(line => line.startsWith('<3>')), spoold.output)
  })
})

describe('a log that goes elsewhere', () => {
  it('has no severities, even if JOURNAL_STREAM was inherited', async () => {
    const lines = await noisyDaemon({ env: { JOURNAL_STREAM: '8:12345' } })
    assert.deepEqual(
      lines.filter(line => /^<[346]>/.test(line)),
      [],
    )
  })
})
