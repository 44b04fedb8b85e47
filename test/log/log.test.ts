import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  closeSync,
  constants,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { type Log, type LogOptions, openLog as openLogOf } from '#src/base/log/log.js'
import { Opener } from '#src/system/opener.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { workspace } from '../helpers/workspace.js'

const CTIME = '(Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [ \\d]\\d \\d\\d:\\d\\d:\\d\\d \\d{4}'

const openLog = (options: Omit<LogOptions, 'files'>) => openLogOf({ ...options, files: new Opener(null) })

/** Returns what a log holds after `write`. */
async function logged(options: Partial<LogOptions>, write: (log: Log) => void): Promise<string> {
  const file = join(workspace(), 'log')
  const log = openLog({ file, format: 'text', date: null, ...options })
  write(log)
  await log.end()
  return readFileSync(file, 'utf8')
}

function openFiles(): string[] {
  return readdirSync('/proc/self/fd').flatMap(fd => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)]
    } catch {
      return [] // the descriptor by which they were listed
    }
  })
}

describe('a text log', () => {
  it('has bare lines, and dates only those that uWSGI always dates', async () => {
    const text = await logged({}, log => {
      log.line('info', 'one', { field: 1 })
      log.line('error', 'two', undefined, 'dated')
    })
    assert.match(text, new RegExp(`^one\\n${CTIME} - two\\n$`))
  })

  for (const yes of ['', 'true', '1', 'on', 'YES'])
    it(`dates every line as ctime does with log-date = "${yes}"`, async () => {
      const text = await logged({ date: yes }, log => log.line('info', 'one'))
      assert.match(text, new RegExp(`^${CTIME} - one\\n$`))
    })

  it('dates lines in a format as strftime(3) does in the C locale', async () => {
    const format = '%Y-%m-%d|%a %b %e|%c|%X|%Z|%z|%j|%p|%%c|%%%Z'
    const day = (text: string) => text.replace(/\d\d:\d\d:\d\d/g, 'TIME')
    const expected = execFileSync('date', [`+${format}`], { env: { ...process.env, LC_ALL: 'C' } })
    const text = await logged({ date: format }, log => log.line('info', 'one'))
    assert.equal(day(text), `${day(String(expected).trim())} - one\n`)
  })

  it('dates lines to the millisecond, with the offset, with log-date = iso', async () => {
    const zone = process.env.TZ
    try {
      for (const [name, offset] of [
        ['UTC', '[+]00:00'],
        ['Asia/Kolkata', '[+]05:30'],
        ['America/St_Johns', '-0[23]:30'],
      ] as const) {
        process.env.TZ = name
        const before = Date.now()
        const text = await logged({ date: 'iso' }, log => log.line('info', 'one'))
        const [, time = ''] =
          new RegExp(`^(\\d{4}-\\d\\d-\\d\\dT[\\d:]{8}\\.\\d{3}${offset}) - one\\n$`).exec(text) ?? []
        assert.ok(Date.parse(time) >= before && Date.parse(time) <= Date.now(), text)
      }
    } finally {
      if (zone === undefined) delete process.env.TZ
      else process.env.TZ = zone
    }
  })

  it('indents all but the first line of a text, and escapes what a terminal would obey', async () => {
    const text = await logged({ date: null }, log => {
      log.line('error', 'Error: x\n    at f (h.mjs:1)\r\n*** HARAKIRI ON THE SPOOLER (pid: 1) ***')
      log.line(
        'error',
        '\x1b[2J\x07\r*** HARAKIRI\u009b1A\u202e\u2028\ttab caf\u00e9 \u{1f468}\u200d\u{1f469}',
      )
    })
    assert.equal(
      text,
      'Error: x\n      at f (h.mjs:1)\n  *** HARAKIRI ON THE SPOOLER (pid: 1) ***\n' +
        '\\x1b[2J\\x07\\x0d*** HARAKIRI\\x9b1A\\u202e\\u2028\ttab caf\u00e9 \u{1f468}\u200d\u{1f469}\n',
    )
  })

  it('dates lines with the letters of the time zone for %Z', async () => {
    const zones = { 'Europe/Rome': /^CES?T - /, 'America/New_York': /^E[SD]T - /, 'Asia/Kolkata': /^IST - / }
    const zone = process.env.TZ
    try {
      for (const [name, expected] of Object.entries(zones)) {
        process.env.TZ = name
        assert.match(await logged({ date: '%Z' }, log => log.line('info', 'one')), expected)
      }
    } finally {
      if (zone === undefined) delete process.env.TZ
      else process.env.TZ = zone
    }
  })
})

describe('a JSON log', () => {
  it('is one object a line, with level, time, pid, message and fields', async () => {
    const before = Date.now()
    const text = await logged({ format: 'json', date: '' }, log => {
      log.line('warn', 'a "quoted"\nline', { spool: '/s', worker: 7 })
      log.line('error', 'two', undefined, 'dated')
    })
    const [first, second, ...rest] = text.trimEnd().split('\n')
    const { time, ...object } = JSON.parse(first ?? '')
    assert.deepEqual(object, {
      level: 'warn',
      pid: process.pid,
      spool: '/s',
      worker: 7,
      msg: 'a "quoted"\nline',
    })
    assert.ok(time >= before && time <= Date.now())
    assert.equal(JSON.parse(second ?? '').msg, 'two')
    assert.deepEqual(rest, [])
  })
})

describe('a JSON log on a terminal', () => {
  it('escapes what the terminal would obey, so that its parsed values are unchanged', async () => {
    const value = '\x1b[2J\x7f\u009b1A\u202e\u2028 caf\u00e9'
    const text = await logged({ format: 'json' }, log => log.line('info', value, { task: value }))
    assert.match(text, /^[^\p{Cc}\p{Cf}\p{Zl}]*\n$/u)
    const { msg, task } = JSON.parse(text)
    assert.deepEqual([msg, task], [value, value])
  })
})

describe('a log file', () => {
  it('is appended to, and not readable by everybody', async () => {
    const file = join(workspace(), 'log')
    for (const line of ['one', 'two']) {
      const log = openLog({ file, format: 'text', date: null })
      log.line('info', line)
      await log.end()
    }
    assert.equal(readFileSync(file, 'utf8'), 'one\ntwo\n')
    assert.equal(statSync(file).mode & 0o137, 0)
  })

  it('is reopened only if it was moved away, and the log then has the new descriptor', async () => {
    const file = join(workspace(), 'log')
    const log = openLog({ file, format: 'text', date: null })
    const fd = log.fd
    log.line('info', 'before')
    await log.end()
    log.reopen()
    assert.equal(log.fd, fd, 'the descriptor stays, because the file was not moved')
    renameSync(file, `${file}.1`)
    log.line('info', 'moved')
    await log.end()
    log.reopen()
    assert.notEqual(log.fd, fd)
    assert.equal(statSync(`/proc/self/fd/${log.fd}`).ino, statSync(file).ino)
    log.line('info', 'after')
    await log.end()
    assert.equal(readFileSync(`${file}.1`, 'utf8'), 'before\nmoved\n')
    assert.equal(readFileSync(file, 'utf8'), 'after\n')
  })

  it('loses no line that is still being written when it is reopened', async () => {
    const file = join(workspace(), 'log')
    const log = openLog({ file, format: 'text', date: null })
    for (let i = 0; i < 100; i++) {
      log.line('info', `line ${i}`)
      if (i % 10 !== 0) continue
      renameSync(file, `${file}.${i}`)
      log.reopen()
    }
    await log.end()
    const files = [file, ...Array.from({ length: 10 }, (_, i) => `${file}.${i * 10}`)]
    const lines = files.flatMap(each => readFileSync(each, 'utf8').split('\n').filter(Boolean))
    assert.equal(new Set(lines).size, 100)
    assert.equal(lines.length, 100)
    await until('the old files are closed', () => !openFiles().some(open => files.slice(1).includes(open)))
  })

  it('is written on after a line that says so if it cannot be reopened', async () => {
    const directory = join(workspace(), 'logs')
    execFileSync('mkdir', [directory])
    const log = openLog({ file: join(directory, 'log'), format: 'text', date: null })
    const fd = openSync(join(directory, 'log'), 'r')
    rmSync(directory, { recursive: true })
    log.reopen()
    log.line('info', 'still here')
    await log.end()
    const text = readFileSync(fd, 'utf8')
    closeSync(fd)
    assert.match(text, /^the log goes on in the old file: the log file .*logs\/log cannot be opened/)
    assert.match(text, /\nstill here\n$/)
  })

  it('is named with what to do in the error if it cannot be opened', () => {
    const file = join(workspace(), 'missing', 'log')
    assert.throws(() => openLog({ file, format: 'text', date: null }), {
      code: 'LOG_UNWRITABLE',
      message: new RegExp(`^the log file ${file} cannot be opened \\(ENOENT.*\\); name another one`),
    })
  })

  it('refuses a UDP address, which uWSGI accepts, instead of creating a file of that name', () => {
    assert.throws(() => openLog({ file: '127.0.0.1:1717', format: 'text', date: null }), {
      code: 'LOG_UNWRITABLE',
      message: /not sent over UDP.*127\.0\.0\.1:1717/,
    })
  })
})

describe('a log whose file does not take its lines at once', () => {
  it('neither throws nor hangs if the device is full, not even at its end', async () => {
    const log = openLog({ file: '/dev/full', format: 'text', date: null })
    for (let i = 0; i < 1000; i++) log.line('info', `line ${i}`)
    const startedAt = performance.now()
    await log.end()
    assert.ok(performance.now() - startedAt < 10_000)
  })

  it('waits at its end for a slow reader', { skip: skipUnless('mkfifo') }, async () => {
    const fifo = join(workspace(), 'fifo')
    execFileSync('mkfifo', [fifo])
    const reader = openSync(fifo, constants.O_RDWR | constants.O_NONBLOCK)
    const log = openLog({ file: fifo, format: 'text', date: null })
    const kilobyte = 'x'.repeat(1023)
    for (let i = 0; i < 4096; i++) log.line('info', kilobyte)
    let readBytes = 0
    const buffer = Buffer.alloc(16 * 1024)
    const read = () => {
      try {
        readBytes += readSync(reader, buffer)
        return true
      } catch {
        return false // there is nothing to read
      }
    }
    const reading = setInterval(read, 10)
    await log.end()
    clearInterval(reading)
    while (read());
    closeSync(reader)
    assert.equal(readBytes, 4096 * 1024)
  })

  for (const [kind, kilobyte] of [
    ['ASCII', 'x'.repeat(1023)],
    ['other', '€'.repeat(341)],
  ] as const)
    it(`keeps 8 MiB of lines of ${kind} characters for a reader that does not read, and says how many lines it dropped`, {
      skip: skipUnless('mkfifo'),
    }, async () => {
      const fifo = join(workspace(), 'fifo')
      execFileSync('mkfifo', [fifo])
      const reader = openSync(fifo, constants.O_RDWR | constants.O_NONBLOCK)
      const log = openLog({ file: fifo, format: 'text', date: null })
      const written = 10 * 1024
      for (let i = 0; i < written; i++) log.line('info', kilobyte)
      await log.end() // the log gives up, because there is no reader
      const read: Buffer[] = []
      const buffer = Buffer.alloc(1024 * 1024)
      await until('everything was read', () => {
        try {
          read.push(Buffer.from(buffer.subarray(0, readSync(reader, buffer))))
        } catch {}
        return Buffer.concat(read.slice(-2)).includes('were lost')
      })
      closeSync(reader)
      const text = Buffer.concat(read).toString()
      const kept = text.split('\n').filter(line => line === kilobyte).length
      const [, lost] = /^(\d+) lines of this log were lost/m.exec(text) ?? []
      assert.ok(kept >= 8 * 1024 && kept < 9 * 1024, `${kept} kept`)
      assert.equal(kept + Number(lost), written)
    })
})
