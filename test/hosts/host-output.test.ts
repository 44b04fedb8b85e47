import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { constants, openSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { Page } from '#src/runtime/ipc/host-page.js'
import { HostOutput } from '#src/runtime/worker/hosts/host-output.js'
import { openShared } from '#src/system/shared-memory.js'
import { skipUnless } from '../helpers/requires.js'
import { workspace } from '../helpers/workspace.js'

const TOKEN = Buffer.from('0123456789abcdef')
const OUTPUT_FLAG = 4033

/** Opens both ends of a pipe, and the page beside it. */
function open() {
  const pipe = join(workspace(), 'pipe')
  execFileSync('mkfifo', [pipe])
  const page = new Page(openShared(Page.BYTES))
  const state = { isBehind: false }
  const output = new HostOutput(pipe, page, TOKEN, () => state.isBehind)
  const fd = openSync(pipe, constants.O_WRONLY)
  after(() => {
    output.close()
    page.close()
  })
  const mark = (number: number, token = TOKEN) => {
    const tail = Buffer.alloc(4)
    tail.writeUInt32LE(number)
    writeSync(fd, Buffer.concat([Buffer.of(0), token, tail]))
  }
  const flag = () => {
    const byte = Buffer.alloc(1)
    readSync(page.fd, byte, 0, 1, OUTPUT_FLAG)
    return byte[0]
  }
  return {
    output,
    state,
    mark,
    flag,
    print: (text: string | Buffer) => writeSync(fd, Buffer.from(text as string)),
  }
}

describe('the output of a host', { skip: skipUnless('mkfifo') }, () => {
  it('ends for each task at its end mark, even if it was read in several pieces', () => {
    const { output, mark, print } = open()
    print('zero\n')
    output.poll()
    print('more of zero\n')
    mark(0)
    print('two\n')
    mark(2)
    print('three, so far')
    output.poll()
    assert.deepEqual([output.hasEndOf(0), output.hasEndOf(2), output.hasEndOf(3)], [true, true, false])
    assert.equal(output.takeEndOf(0), 'zero\nmore of zero\n')
    assert.equal(output.takeEndOf(2), 'two\n')
    assert.equal(output.takeOpen(), 'three, so far')
    assert.equal(output.hasOpen, false)
  })

  it('is kept for a task until its result arrives, apart from what is printed before and after it', () => {
    const { output, mark, print } = open()
    print('before\n')
    mark(0xffff_ffff)
    print('zero\n')
    mark(0)
    print('a child of it\n')
    output.poll()
    assert.equal(output.hasOpen, true)
    assert.equal(output.takeOpen(), 'before\n')
    assert.equal(output.hasOpen, false)
    assert.equal(output.takeOpen(), '')
    assert.equal(output.hasEndOf(0), true)
    assert.equal(output.takeEndOf(0), 'zero\n')
    assert.equal(output.takeOpen(), 'a child of it\n')
  })

  it('sets the flag on the page while some of it has no end mark', () => {
    const { output, mark, print, flag } = open()
    output.poll()
    assert.equal(flag(), 0)
    print('half of it')
    output.poll()
    assert.equal(flag(), 1)
    assert.equal(output.takeOpen(), 'half of it')
    output.poll()
    assert.equal(flag(), 0)
    mark(0)
    output.poll()
    assert.equal(output.takeEndOf(0), '')
  })

  it('ends at an end mark, wherever a read cuts that mark', () => {
    const tail = Buffer.concat([Buffer.of(0), TOKEN, Buffer.of(5, 0, 0, 0)])
    for (let cut = 1; cut < tail.length; cut++) {
      const { output, print } = open()
      print(Buffer.concat([Buffer.from('te\0xt'), tail.subarray(0, cut)]))
      output.poll()
      assert.equal(output.takeOpen(), 'te\0xt')
      print(tail.subarray(cut))
      output.poll()
      assert.equal(output.hasEndOf(5), true, `cut behind ${cut}`)
    }
  })

  it('has characters whole that two reads cut, and takes a mark with a wrong token for text', () => {
    const { output, mark, print } = open()
    const [first, ...rest] = Buffer.from('é')
    print(Buffer.of(first ?? 0))
    output.poll()
    print(Buffer.from(rest))
    mark(7, Buffer.from('fedcba9876543210'))
    mark(0)
    output.poll()
    assert.equal(output.takeEndOf(0).slice(0, 1), 'é')
    assert.equal(output.hasEndOf(7), false)
  })

  it('waits in its pipe while the log is behind, except at the end', () => {
    const { output, state, print } = open()
    print('x')
    state.isBehind = true
    assert.equal(output.poll(), false)
    assert.equal(output.hasOpen, false)
    assert.equal(output.poll(true), true)
    assert.equal(output.takeOpen(), 'x')
  })
})
