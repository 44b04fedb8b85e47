import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, readFileSync, renameSync, truncateSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { isAlive } from '../helpers/process.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** Starts a daemon with these shell commands, in files beside the spool. */
function startExec(spool: string, scripts: readonly string[], ini = {}, env = {}) {
  const commands = scripts.map((script, i) => {
    const file = join(dirname(spool), `program${i}.sh`)
    writeFileSync(file, script)
    return `sh ${file} ${dirname(spool)}/out`
  })
  return startDaemon({
    spool,
    isForeign: true,
    ini: { 'spooler-exec': commands, ...ini },
    env: { ...process.env, ...env },
  })
}

describe('spooler-exec', () => {
  it('gives a program the packet, its keys and the body', async () => {
    const spool = spoolDirectory()
    await startExec(
      spool,
      ['cat > $1.json; cat <&3 > $1.body; env | grep ^SPOOL_ | sort > $1.env; pwd > $1.pwd'],
      {
        'spooler-ordered': true,
      },
    )
    mkdirSync(join(spool, '3'))
    const bytes = packet(
      { to: 'jöe', PATH: '/evil', raw: Buffer.of(0xff), 'odd-key': 'x', empty: '' },
      'B\0DY',
    )
    drop(join(spool, '3'), 'uwsgi_spoolfile_on_a', bytes)
    await until('the task has run', () => leftIn(spool).length === 0)
    const out = (suffix: string) => readFileSync(join(dirname(spool), `out.${suffix}`), 'utf8')
    assert.deepEqual(JSON.parse(out('json')), {
      to: 'jöe',
      PATH: '/evil',
      raw: { base64: '/w==' },
      'odd-key': 'x',
      empty: '',
      spooler_task_name: 'uwsgi_spoolfile_on_a',
    })
    assert.equal(out('body'), 'B\0DY')
    assert.equal(out('pwd'), `${spool}/3\n`)
    const environment = out('env').split('\n')
    for (const line of [
      'SPOOL_to=jöe',
      'SPOOL_PATH=/evil',
      'SPOOL_empty=',
      'SPOOL_task_name=uwsgi_spoolfile_on_a',
    ])
      assert.ok(environment.includes(line), line)
  })

  it('gives a program the packet as it is in the file with spooler-exec-input = packet', async () => {
    const spool = spoolDirectory()
    await startExec(spool, ['cat > $1'], { 'spooler-exec-input': 'packet' })
    const bytes = packet({ a: Buffer.from([0, 1, 255]) })
    drop(spool, undefined, bytes)
    await until('the task has run', () => leftIn(spool).length === 0)
    const got = readFileSync(join(dirname(spool), 'out'))
    // the fourth byte is the state byte, which has a mark by now
    assert.deepEqual([got.subarray(0, 3), got.subarray(4)], [bytes.subarray(0, 3), bytes.subarray(4)])
  })

  it('gives a program no variable for a value of 60,000 bytes that are not UTF-8', async () => {
    const spool = spoolDirectory()
    await startExec(spool, ['cat > $1.json; env | grep ^SPOOL_ > $1.env'])
    const raw = Buffer.alloc(60_000, 0xff)
    drop(spool, undefined, packet({ to: 'joe', raw }))
    await until('the task has run', () => leftIn(spool).length === 0)
    const out = (suffix: string) => readFileSync(join(dirname(spool), `out.${suffix}`), 'utf8')
    assert.deepEqual(JSON.parse(out('json')).raw, { base64: raw.toString('base64') })
    assert.match(out('env'), /^SPOOL_to=joe$/m)
    assert.doesNotMatch(out('env'), /SPOOL_raw/)
  })

  it('acts on the exit code', async () => {
    const spool = spoolDirectory()
    const daemon = await startExec(spool, [
      'echo first $SPOOL_code; [ $SPOOL_code = 999 ] && kill -9 $$; exit $SPOOL_code',
      'echo second $SPOOL_code',
    ])
    for (const code of ['0', '1', '75', '64', '78', '100', '999'])
      drop(spool, `uwsgi_spoolfile_on_${code}`, packet({ code }))
    await until('all tasks have run', () => leftIn(spool).length === 3)
    assert.deepEqual(
      leftIn(spool),
      ['1', '75', '999'].map(code => `uwsgi_spoolfile_on_${code}`),
    )
    await daemon.waitFor(/task uwsgi_spoolfile_on_1 failed.*the program exited with code 1/)
    await daemon.waitFor(
      /task uwsgi_spoolfile_on_999 failed.*SIGKILL|task uwsgi_spoolfile_on_999 failed.*code 137/,
    )
    for (const code of ['64', '78'])
      await daemon.waitFor(new RegExp(`uwsgi_spoolfile_on_${code} is buried.*exited with code ${code}`))
    await daemon.waitFor(/uwsgi_spoolfile_on_100: second 100/)
    assert.doesNotMatch(daemon.output, /second (0|1|75)\b/)
  })

  it("logs a program's output line by line, with the task's name", async () => {
    const spool = spoolDirectory()
    const daemon = await startExec(spool, ['echo one; echo two >&2; printf three; sleep 10 &'])
    drop(spool, 'uwsgi_spoolfile_on_a')
    await until('the task has run', () => leftIn(spool).length === 0)
    for (const line of ['one', 'two', 'three']) await daemon.waitFor(`uwsgi_spoolfile_on_a: ${line}\n`)
  })

  it('lets a program open its output by name, as in a terminal', async () => {
    const spool = spoolDirectory()
    const script = `
      for i in 1 2 3; do
        echo "$i error" > /dev/stderr; echo "$i out" > /dev/stdout; echo "$i number" >> /proc/self/fd/2
      done`
    const daemon = await startExec(spool, [script], { 'spooler-concurrency': 12 })
    const names = Array.from({ length: 40 }, (_, i) => `t${i}`)
    for (const name of names) drop(spool, name)
    await until('all tasks have run', () => leftIn(spool).length === 0)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    for (const name of names) {
      const printed = daemon.output.match(new RegExp(`(?<= ${name}: ).*$`, 'gm'))
      const each = (what: string) => [1, 2, 3].map(i => `${i} ${what}`)
      const sorted = (what: RegExp) => printed?.filter(line => what.test(line))
      assert.equal(printed?.length, 9, `${name}: ${printed}`)
      assert.deepEqual(sorted(/out/), each('out'))
      assert.deepEqual(
        sorted(/error|number/),
        [1, 2, 3].flatMap(i => [`${i} error`, `${i} number`]),
      )
    }
  })

  it('gives no program a pipe to which a process of an earlier program still writes', async () => {
    const spool = spoolDirectory()
    const script = `case $SPOOL_task_name in
      first)
        setsid sh -c 'until ! echo escaped; do : > $0; sleep 0.01; done' $1.escaped &
        until [ -e $1.escaped ]; do sleep 0.01; done ;;
      *) sleep 0.05; echo mine > /dev/stdout ;;
    esac`
    const daemon = await startExec(spool, [script])
    drop(spool, 'first')
    await until('the task has run', () => leftIn(spool).length === 0)
    for (let i = 0; i < 10; i++) drop(spool, `next${i}`)
    await until('all tasks have run', () => leftIn(spool).length === 0)
    for (let i = 0; i < 10; i++) await daemon.waitFor(`next${i}: mine`)
    assert.doesNotMatch(daemon.output, /next\d: escaped/)
  })

  it('does not wait for a process that outlives its program and prints as fast as it can', async () => {
    const spool = spoolDirectory()
    const script = `setsid sh -c ': > $0; exec yes $1' $1.escaped $(printf %01000d 0) &
      until [ -e $1.escaped ]; do sleep 0.01; done`
    const daemon = await startExec(spool, [script])
    drop(spool, 'uwsgi_spoolfile_on_a')
    await until('the task has run', () => leftIn(spool).length === 0)
    await daemon.waitFor(/uwsgi_spoolfile_on_a: 0{1000}\n/)
  })

  it('leaves no descriptor and no temporary file behind when programs have printed', async () => {
    const spool = spoolDirectory()
    const temporary = join(dirname(spool), 'tmp')
    mkdirSync(temporary)
    const daemon = await startExec(spool, ['echo it > /dev/stderr'], {}, { TMPDIR: temporary })
    const runSome = async () => {
      for (let i = 0; i < 20; i++) drop(spool)
      await until('all tasks have run', () => leftIn(spool).length === 0)
      const [worker] = daemon.workers()
      return readdirSync(`/proc/${worker}/fd`).length
    }
    const first = await runSome()
    await until('there are no more descriptors than before', async () => (await runSome()) <= first)
    assert.deepEqual(readdirSync(temporary), [])
  })

  it('needs no directory for temporary files', async () => {
    const spool = spoolDirectory()
    const env = { TMPDIR: join(dirname(spool), 'missing') }
    const daemon = await startExec(spool, ['echo one; echo two >&2'], {}, env)
    drop(spool, 'uwsgi_spoolfile_on_a')
    for (const line of ['one', 'two']) await daemon.waitFor(`uwsgi_spoolfile_on_a: ${line}\n`)
  })

  it('keeps each process below 250 MiB when a program prints 20 MB', async () => {
    const spool = spoolDirectory()
    const daemon = await startExec(spool, ['head -c 20000000 /dev/zero | tr "\\0" x | fold -w 1000'])
    drop(spool)
    await until('the task has run', () => leftIn(spool).length === 0, 60_000)
    assert.match(daemon.output, /: x{1000}$/m)
    for (const pid of [daemon.pid, ...daemon.workers()]) {
      const peak = Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
      assert.ok(peak < 250 * 1024, `${peak} KiB`)
    }
  })

  it('gives a program an empty descriptor 3 if the task has no body', async () => {
    const spool = spoolDirectory()
    const daemon = await startExec(spool, ['wc -c <&3 || exit 64'])
    drop(spool, 'uwsgi_spoolfile_on_a')
    await until('the task has run', () => leftIn(spool).length === 0)
    await daemon.waitFor('done with task uwsgi_spoolfile_on_a')
    assert.match(daemon.output, /uwsgi_spoolfile_on_a: 0$/m)
  })

  it('passes a large body on in pieces, and kills a program whose body is cut while it reads', async () => {
    const spool = spoolDirectory()
    const daemon = await startExec(
      spool,
      [
        `[ -e $1 ] || { head -c 9 <&3 >/dev/null; : > $1; truncate -s 250000000 $SPOOL_task_path; }; wc -c <&3`,
      ],
      { 'spooler-retry-delay': 1 },
    )
    const large = join(dirname(spool), 'large')
    writeFileSync(large, packet({ a: 'b' }))
    const packetBytes = readFileSync(large).length
    truncateSync(large, 400_000_000 + packetBytes)
    renameSync(large, join(spool, 'uwsgi_spoolfile_on_large'))
    await daemon.waitFor('done with task uwsgi_spoolfile_on_large', 60_000)
    assert.match(
      daemon.output,
      /failed, runs again in 1 s: the program was killed, because its body could not be read: it ends after \d+ of 400000000 bytes/,
    )
    assert.match(daemon.output, new RegExp(`uwsgi_spoolfile_on_large: ${250_000_000 - packetBytes}$`, 'm'))
    assert.doesNotMatch(daemon.output, /Warning/)
    for (const pid of daemon.workers()) {
      const peak = Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
      assert.ok(peak < 200 * 1024, `${peak} KiB`)
    }
  })

  it('ends a program and its children when harakiri ends its worker', async () => {
    const spool = spoolDirectory()
    const daemon = await startExec(spool, ['sleep 3600 & echo $! > $1; wait'], {
      'spooler-harakiri': 1,
      'spooler-max-crashes': 1,
    })
    drop(spool)
    await daemon.waitFor('is buried')
    const pid = Number(readFileSync(join(dirname(spool), 'out'), 'utf8'))
    await until('the child is gone', () => !isAlive(pid))
  })
})
