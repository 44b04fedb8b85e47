import assert from 'node:assert/strict'
import fs, { constants } from 'node:fs'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { Worker } from 'node:worker_threads'
import fc from 'fast-check'
import { CWD, eachEntry, type SystemCalls } from '#src/system/calls.js'
import { nodeCalls } from '#src/system/elsewhere.js'
import { libcFault, systemCalls } from '#src/system/libc.js'
import { isLong } from '../helpers/requires.js'
import { workspace } from '../helpers/workspace.js'

const { O_RDWR, O_CREAT, O_EXCL, O_RDONLY, O_DIRECTORY } = constants
/** How many random cases there are in all. */
const CASES = isLong ? 1_000_000 : 30_000
const hasLibc = libcFault() === undefined
const WAYS: ReadonlyArray<readonly [string, SystemCalls, number]> = [
  ...(hasLibc ? ([['libc', systemCalls(), 1]] as const) : []),
  ['node:fs', nodeCalls, 20],
]

const name = fc
  .array(fc.oneof(fc.integer({ min: 1, max: 255 }), fc.integer({ min: 97, max: 99 })), {
    minLength: 1,
    maxLength: 255,
  })
  .map(bytes => String.fromCharCode(...bytes.filter(byte => byte !== 47)))
  .filter(text => !['', '.', '..'].includes(text))

/** Anything that cannot be a descriptor. */
const noDescriptor = fc
  .anything()
  .filter(value => typeof value !== 'number' || !(value >= 0 && value < 2 ** 31))
// biome-ignore lint/suspicious/noControlCharactersInRegex: all bytes but NUL
const NO_BYTES = /[^\x01-\xff]/
const noName = fc
  .anything()
  .filter(value => (typeof value !== 'string' || NO_BYTES.test(value)) && !(value instanceof Uint8Array))
/** Anything that is neither a length in a buffer of eight bytes nor a position. */
const noLength = fc
  .anything()
  .filter(value => typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value > 8)
const noMode = fc
  .anything()
  .filter(value => value !== undefined && !(typeof value === 'number' && value >= 0 && value <= 0o7777))

for (const [way, calls, part] of WAYS)
  describe(`random calls over ${way}`, () => {
    const numRuns = CASES / 4 / part
    const path = workspace()
    const fd = calls.openat(CWD, path, O_RDONLY | O_DIRECTORY)
    after(() => calls.close(fd))

    it('find the name that they created, and no other', () => {
      fc.assert(
        fc.property(name, name, (made, other) => {
          calls.close(calls.openat(fd, made, O_CREAT | O_EXCL | O_RDWR, 0o600))
          const there = fs.readdirSync(path, { encoding: 'latin1' as BufferEncoding })
          assert.deepEqual(there, [made])
          assert.equal(calls.statusAt(fd, other) !== undefined, other === made)
          assert.equal(calls.statusAt(fd, Buffer.from(made, 'latin1'))?.isFile, true)
          if (way === 'libc') {
            const entries: string[] = []
            const open = calls.openat(CWD, path, O_RDONLY | O_DIRECTORY)
            const slice = Buffer.alloc(2048, 0xaa)
            for (let bytes = calls.getdents(open, slice); bytes > 0; bytes = calls.getdents(open, slice))
              eachEntry(slice, bytes, entry => entries.push(entry) > 0)
            calls.close(open)
            assert.deepEqual(entries, [made])
          }
          calls.unlinkat(fd, made)
        }),
        { numRuns },
      )
    })

    it('read and write a file like a Buffer in memory', () => {
      const file = calls.openat(fd, 'file', O_CREAT | O_RDWR, 0o600)
      let model = Buffer.alloc(0)
      fc.assert(
        fc.property(
          fc.uint8Array({ maxLength: 300 }),
          fc.nat({ max: 300 }),
          fc.nat({ max: 1000 }),
          fc.boolean(),
          (bytes, length, position, isWrite) => {
            if (isWrite) {
              const count = Math.min(length, bytes.length)
              assert.equal(calls.pwrite(file, bytes, count, position), count)
              if (count === 0) return
              const next = Buffer.alloc(Math.max(model.length, position + count))
              model.copy(next)
              Buffer.from(bytes).copy(next, position, 0, count)
              model = next
            } else {
              const into = Buffer.alloc(length + 8, 0x55)
              const read = calls.pread(file, into.subarray(4), length, position)
              assert.deepEqual(into.subarray(4, 4 + read), model.subarray(position, position + length))
              assert.ok(
                into.subarray(4 + read).every(byte => byte === 0x55),
                'no byte is written behind what was read',
              )
              assert.ok(
                into.subarray(0, 4).every(byte => byte === 0x55),
                'no byte is written before what was read',
              )
            }
          },
        ),
        { numRuns },
      )
      calls.close(file)
      calls.unlinkat(fd, 'file')
    })

    it('with an invalid argument throw, and make no system call', () => {
      fs.writeFileSync(join(path, 'victim'), '12345678')
      const file = calls.openat(fd, 'victim', O_RDWR)
      const bytes = Buffer.alloc(8)
      const before = fs.statSync(join(path, 'victim'), { bigint: true })
      const fds = fs.readdirSync('/proc/self/fd')
      const wrongly = (value: unknown) => value as never
      const byDescriptor = [
        (bad: unknown) => calls.openat(wrongly(bad), 'x', O_CREAT),
        (bad: unknown) => calls.tryOpenat(wrongly(bad), 'x', O_CREAT),
        (bad: unknown) => calls.openBeneath(wrongly(bad), 'victim', O_RDONLY),
        (bad: unknown) => calls.close(wrongly(bad)),
        (bad: unknown) => calls.closeRun(wrongly(bad), 1_000_000),
        (bad: unknown) => calls.status(wrongly(bad)),
        (bad: unknown) => calls.statusAt(wrongly(bad), 'victim'),
        (bad: unknown) => calls.pread(wrongly(bad), bytes, 8, 0),
        (bad: unknown) => calls.pwrite(wrongly(bad), bytes, 8, 0),
        (bad: unknown) => calls.unlinkat(wrongly(bad), 'victim'),
        (bad: unknown) => calls.tryUnlinkat(wrongly(bad), 'victim'),
        (bad: unknown) => calls.mkdirat(wrongly(bad), 'x', 0o700),
        (bad: unknown) => calls.linkat(fd, 'victim', wrongly(bad), 'x'),
        (bad: unknown) => calls.renameat(wrongly(bad), 'victim', fd, 'x'),
        (bad: unknown) => calls.renameFreely(fd, 'victim', wrongly(bad), 'x'),
        ...(way === 'libc'
          ? [
              (bad: unknown) => calls.tryLock(wrongly(bad)),
              (bad: unknown) => calls.isLocked(wrongly(bad)),
              (bad: unknown) => calls.unlock(wrongly(bad)),
              (bad: unknown) => calls.getdents(wrongly(bad), bytes),
              (bad: unknown) => calls.keepFromChildren(wrongly(bad)),
            ]
          : []),
      ]
      const byName = [
        (bad: unknown) => calls.openat(fd, wrongly(bad), O_CREAT),
        (bad: unknown) => calls.statusAt(fd, wrongly(bad)),
        (bad: unknown) => calls.unlinkat(fd, wrongly(bad)),
        (bad: unknown) => calls.mkdirat(fd, wrongly(bad), 0o700),
        (bad: unknown) => calls.linkat(fd, 'victim', fd, wrongly(bad)),
        (bad: unknown) => calls.renameat(fd, 'victim', fd, wrongly(bad)),
        ...(way === 'libc'
          ? [
              (bad: unknown) => calls.mkfifo(wrongly(bad), 0o600),
              (bad: unknown) => calls.sendDatagram(wrongly(bad), bytes),
            ]
          : []),
      ]
      const byLength = [
        (bad: unknown) => calls.pread(file, bytes, wrongly(bad), 0),
        (bad: unknown) => calls.pwrite(file, bytes, wrongly(bad), 0),
        ...(way === 'libc' ? [(bad: unknown) => calls.waitpid(-1 - Number(Boolean(bad)))] : []),
      ]
      const byMode = way === 'libc' ? [(bad: unknown) => calls.mkdirat(fd, 'x', wrongly(bad))] : []
      const byBuffer = [
        (bad: unknown) => calls.pread(file, wrongly(bad), 0, 0),
        (bad: unknown) => calls.pwrite(file, wrongly(bad), 0, 0),
      ]
      const noBuffer = fc.anything().filter(value => !(value instanceof Uint8Array))
      const cases = [
        [byDescriptor, noDescriptor],
        [byName, noName],
        [byLength, noLength],
        [byMode, noMode],
        [byBuffer, noBuffer],
      ] as const
      for (const [functions, values] of cases)
        fc.assert(
          fc.property(values, value => {
            for (const call of functions) {
              let thrown: unknown
              try {
                call(value)
              } catch (error) {
                thrown = error
              }
              // an error of the kernel would mean that the system call was made
              assert.ok(
                thrown instanceof RangeError || thrown instanceof TypeError,
                `${call}: ${String(thrown)}`,
              )
            }
          }),
          { numRuns: Math.ceil(numRuns / 5) },
        )
      assert.deepEqual(fs.readdirSync(path), ['victim'])
      assert.deepEqual(fs.statSync(join(path, 'victim'), { bigint: true }), before)
      assert.deepEqual(fs.readdirSync('/proc/self/fd').length, fds.length)
      calls.close(file)
      calls.unlinkat(fd, 'victim')
    })
  })

describe('libc, called very often', { skip: !hasLibc && 'there is no libc' }, () => {
  const calls = systemCalls()

  const memory = () => {
    const status = fs.readFileSync('/proc/self/status', 'latin1')
    return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) * 1024
  }
  const descriptors = () => fs.readdirSync('/proc/self/fd').length

  it(`leaks neither descriptors nor memory`, () => {
    const path = workspace()
    const fd = calls.openat(CWD, path, O_RDONLY | O_DIRECTORY)
    const into = Buffer.alloc(4096)
    const odd = '\xfcml\xe4ut'
    /** 16 calls, four of which fail. */
    const round = () => {
      const file = calls.openat(fd, 'task', O_CREAT | O_RDWR, 0o600)
      calls.tryLock(file)
      calls.status(file)
      calls.statusAt(fd, 'task')
      calls.statusAt(fd, odd)
      calls.pwrite(file, into, 100, 0)
      calls.pread(file, into, 4096, 0)
      calls.tryOpenat(fd, 'gone', O_RDONLY)
      calls.tryUnlinkat(fd, odd)
      calls.renameat(fd, 'task', fd, odd)
      calls.renameFreely(fd, odd, fd, 'task')
      calls.tryOpenat(fd, Buffer.from(odd, 'latin1'), O_RDONLY)
      calls.unlinkat(fd, 'task')
      calls.unlock(file)
      calls.closeRun(file, file)
      calls.getdents(fd, into)
    }
    const rounds = (isLong ? 10_000_000 : 1_000_000) / 16
    for (let i = 0; i < 20_000; i++) round() // until V8 has grown its heap and compiled the code
    const [memoryBefore, descriptorsBefore] = [memory(), descriptors()]
    for (let i = 0; i < rounds; i++) round()
    assert.equal(descriptors(), descriptorsBefore)
    const grown = memory() - memoryBefore
    assert.ok(grown < 16 * 2 ** 20, `${grown} bytes more`)
    calls.close(fd)
  })

  it('works in several threads at once, and in threads that are terminated during a call', async () => {
    const code = `
      const { parentPort, workerData } = require('node:worker_threads')
      const { constants: { O_CREAT, O_RDWR, O_RDONLY, O_DIRECTORY } } = require('node:fs')
      import(workerData.module).then(async ({ systemCalls }) => {
        const calls = systemCalls()
        const fd = calls.openat(-100, workerData.path, O_RDONLY | O_DIRECTORY)
        const into = Buffer.alloc(64)
        for (let i = 0; i < 20_000; i++) {
          const name = 'n' + workerData.number + '-' + i
          const file = calls.openat(fd, name, O_CREAT | O_RDWR, 0o600)
          if (!calls.tryLock(file)) throw new Error('locked')
          calls.pwrite(file, Buffer.from(name), name.length, 0)
          if (into.toString('latin1', 0, calls.pread(file, into, 64, 0)) !== name) throw new Error('mixed up')
          if (calls.tryOpenat(fd, name + 'x', O_RDONLY) !== -2) throw new Error('errno')
          if (calls.tryOpenat(file, 'x', O_RDONLY) !== -20) throw new Error('errno')
          calls.unlinkat(fd, name)
          calls.close(file)
        }
        calls.tryLock(calls.openat(fd, 'locked-' + workerData.number, O_CREAT | O_RDWR, 0o600))
        parentPort.postMessage('done')
        const slice = Buffer.alloc(32768)
        const list = calls.openat(-100, '/proc', O_RDONLY | O_DIRECTORY)
        for (;;) await calls.getdentsAside(list, slice)
      }).catch(error => { parentPort.postMessage(String(error)) })`
    const path = workspace()
    const module = import.meta.resolve('#src/system/libc.js')
    const descriptorsBefore = descriptors()
    for (let turn = 0; turn < 3; turn++) {
      const workers = [0, 1, 2, 3].map(
        number => new Worker(code, { eval: true, workerData: { module, path, number } }),
      )
      const said = await Promise.all(
        workers.map(worker => new Promise(resolve => worker.once('message', resolve))),
      )
      assert.deepEqual(said, ['done', 'done', 'done', 'done'])
      await Promise.all(workers.map(worker => worker.terminate()))
    }
    for (const name of fs.readdirSync(path))
      assert.ok(calls.tryLock(calls.openat(CWD, join(path, name), O_RDWR)))
    assert.equal(descriptors(), descriptorsBefore + 4, 'all but the four locked files are closed')
    assert.ok(calls.status(0))
  })
})
