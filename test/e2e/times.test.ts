import assert from 'node:assert/strict'
import { readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { HEADER_BYTES } from '#src/formats/protocol/header.js'
import { lastValue, parseVars } from '#src/formats/protocol/vars.js'
import { type SpooldError, spool as spoolTask } from '#src/index.js'
import { inProcess } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { exchange, portOf, REFUSED, STORED, wire } from '../helpers/wire.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { type Language, startHost } from '../hosts/host-daemon.js'

const IN_2030 = 1_893_456_000

/** Values of `at` and the times that they mean in epoch seconds; undefined: the value is refused, and nothing is stored. */
const TIMES: ReadonlyArray<readonly [at: string, means: number | 'now' | 'in an hour' | undefined]> = [
  ['1893456000', IN_2030],
  ['1893456000.75', IN_2030],
  ['2030-01-01T00:00:00Z', IN_2030],
  ['2030-01-01 01:00:00 +0100', IN_2030], // as Ruby writes it
  ['2030-01-01 00:00:00 UTC', IN_2030],
  ['2030-01-01', new Date(2030, 0, 1).getTime() / 1000],
  ['+1h', 'in an hour'],
  ['-5', 'now'],
  ['0', 'now'],
  ['', 'now'],
  ['tomorrow', undefined],
  ['1e10', undefined],
  [' 1893456000', undefined],
  ['2030-02-30', undefined],
  ['1893456000000', undefined],
]

/** Returns the mtime of the only task file of a spool, and `at` as its handler gets it. */
function storedIn(
  spool: string,
): { readonly atSeconds: number; readonly at: string | undefined } | undefined {
  const [name] = leftIn(spool)
  if (name === undefined) return undefined
  const path = join(spool, name)
  const text = readFileSync(path, 'latin1')
  const vars = parseVars(text, HEADER_BYTES, text.length)
  assert.ok(!('fault' in vars))
  return { atSeconds: Math.floor(statSync(path).mtimeMs / 1000), at: lastValue(vars, 'at') }
}

/** Checks all TIMES. @param store stores a task with this `at` in this spool @returns false if the task is refused */
async function assertTimes(store: (spool: string, at: string) => Promise<boolean>, spool = spoolDirectory()) {
  const wrong: string[] = []
  for (const [at, means] of TIMES) {
    const before = Math.floor(Date.now() / 1000)
    const isTaken = await store(spool, at)
    const after = Math.ceil(Date.now() / 1000)
    const stored = storedIn(spool)
    const said = JSON.stringify([at, isTaken, stored])
    const isBetween = (seconds: number, delay = 0) => seconds >= before + delay && seconds <= after + delay
    if (means === undefined) {
      if (isTaken || stored !== undefined) wrong.push(`not refused: ${said}`)
    } else if (!isTaken || stored === undefined) wrong.push(`refused: ${said}`)
    else {
      const { atSeconds } = stored
      const isRight =
        means === 'now'
          ? isBetween(atSeconds)
          : means === 'in an hour'
            ? isBetween(atSeconds, 3600)
            : atSeconds === means
      if (!isRight) wrong.push(`at another time: ${said}`)
      if (!/^(-?\d+(\.\d+)?)?$/.test(stored.at ?? '')) wrong.push(`no number is stored: ${said}`)
    }
    for (const name of leftIn(spool)) rmSync(join(spool, name))
  }
  assert.deepEqual(wrong, [])
}

describe('a time as text means the same everywhere, or is refused', { concurrency: 3 }, () => {
  it('on the command line', () =>
    assertTimes(async (spool, at) => {
      const { code, stderr } = await inProcess(['enqueue', '--spooler', spool, `at=${at}`, 'n=1'])
      assert.ok(code === 0 || /at must be epoch seconds/.test(stderr), stderr)
      return code === 0
    }))

  it('in the library', () =>
    assertTimes((spooler, at) =>
      spoolTask({ spooler, at, n: '1' }).then(
        () => true,
        (error: SpooldError) => {
          assert.equal(error.code, 'REQUEST_INVALID')
          return false
        },
      ),
    ))

  it('over the network', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool, isAside: true, ini: { socket: '127.0.0.1:0' } })
    const port = await portOf(daemon)
    await assertTimes(async (_, at) => {
      const reply = await exchange(port, wire(Object.entries({ n: '1', at })))
      assert.ok(reply === STORED || reply === REFUSED, reply)
      return reply === STORED
    }, spool)
    await daemon.waitFor(
      /at must be epoch seconds, a Date, an ISO 8601 date, or \+1h30m from now, got "tomorrow"/,
    )
  })

  const handlers: Readonly<Record<Language, (spool: string) => string>> = {
    python: spool => `
def run(env):
    try:
        uwsgi.spool({b'n': b'1', b'at': env[b'when'], b'spooler': b${JSON.stringify(spool)}})
        journal('stored')
    except Exception as error:
        journal('refused: %s' % error)
    return uwsgi.SPOOL_OK
uwsgi.spooler = run`,
    perl: spool => `
uwsgi::spooler(sub {
    my ($env) = @_;
    eval { uwsgi::spool({ n => '1', at => $env->{when}, spooler => ${JSON.stringify(spool)} }); 1 }
        ? journal('stored') : journal("refused: $@" =~ s/\\n//gr);
    return uwsgi::SPOOL_OK;
});`,
    ruby: spool => `
def UWSGI.spooler(env)
  begin
    UWSGI.spool({ 'n' => '1', 'at' => env['when'], 'spooler' => ${JSON.stringify(spool)} })
    journal('stored')
  rescue => error
    journal("refused: #{error.message}")
  end
  UWSGI::SPOOL_OK
end`,
  }
  for (const language of ['python', 'perl', 'ruby'] as const)
    it(`in a handler in ${language}`, {
      skip: skipUnless(language === 'python' ? 'python3' : language),
    }, async () => {
      const [spool, target] = [spoolDirectory(), spoolDirectory()]
      const daemon = await startHost(language, {
        spool,
        handler: handlers[language](target),
        ini: { 'spooler-external': target },
      })
      await assertTimes(async (_, at) => {
        const { length } = daemon.journal()
        drop(spool, undefined, packet({ when: at }))
        await until('the handler has answered', () => daemon.journal().length > length)
        const answer = daemon.journal().at(-1) ?? ''
        assert.match(answer, /^(stored|refused: .*at must be epoch seconds.*)$/)
        return answer === 'stored'
      }, target)
    })
})
