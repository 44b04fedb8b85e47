import assert from 'node:assert/strict'
import { describe, it, mock } from 'node:test'
import { Marks } from '#src/runtime/ipc/marks.js'
import type { MasterMessage } from '#src/runtime/ipc/messages.js'
import { AsideProcess } from '#src/runtime/supervisor/aside.js'
import type { PortExit, PortListener, WorkerPort } from '#src/runtime/supervisor/worker-port.js'

/** Answers everything with its own number, unless it is told to be silent. */
class FakePort implements WorkerPort {
  readonly pid = 1
  readonly hasOwnProcess = true
  readonly marks = new Marks()
  isSilent = false
  isKilled = false
  readonly #number: number
  #listener: PortListener | undefined
  #exit = (_exit: PortExit) => {}
  readonly whenExited = new Promise<PortExit>(resolve => {
    this.#exit = resolve
  })

  constructor(number: number) {
    this.#number = number
  }

  listen(listener: PortListener): void {
    this.#listener = listener
  }

  send(message: MasterMessage): void {
    if (message.type !== 'do-aside') assert.fail()
    const { id } = message
    if (!this.isSilent)
      setImmediate(() => this.#listener?.heard({ type: 'done-aside', id, value: this.#number }))
  }

  kill(): void {
    this.isKilled = true
  }

  /** A process ends some time after it was killed. */
  exit(): void {
    this.#exit({ code: null, signal: 'SIGKILL' })
  }
}

function openPorts(): { ports: FakePort[]; aside: AsideProcess } {
  const ports: FakePort[] = []
  const aside = new AsideProcess(() => {
    const port = new FakePort(ports.length)
    ports.push(port)
    return port
  })
  return { ports, aside }
}

describe('a process aside', () => {
  it('is ended when nobody has asked it for a while, and another one answers who asks before it is gone', async () => {
    mock.timers.enable({ apis: ['setTimeout'] })
    const { ports, aside } = openPorts()
    assert.equal(await aside.ask('forget', '/spool', 1), 0)
    assert.equal(await aside.ask('forget', '/spool', 1), 0)
    mock.timers.tick(60_000)
    mock.timers.reset()
    assert.equal(ports[0]?.isKilled, true)
    const answer = aside.ask('forget', '/spool', 1)
    ports[0]?.exit()
    assert.equal(await answer, 1)
    aside.close()
  })

  it('is killed if it does not answer a look, and there is no other one before it is gone', async () => {
    mock.timers.enable({ apis: ['setTimeout'] })
    const { ports, aside } = openPorts()
    await aside.ask('look', '/spool', [])
    const [first] = ports
    assert.ok(first)
    first.isSilent = true
    const answer = aside.ask('look', '/spool', ['a'])
    mock.timers.tick(60_000)
    mock.timers.reset()
    await assert.rejects(answer, /has not answered for 15 s/)
    assert.equal(first.isKilled, true)
    await assert.rejects(aside.ask('look', '/spool', ['a']), /has not answered/)
    assert.equal(ports.length, 1)
    first.exit()
    await first.whenExited
    assert.equal(await aside.ask('look', '/spool', ['a']), 1)
    aside.close()
  })

  it('is not killed for a long sweep, because a directory may be large', async () => {
    mock.timers.enable({ apis: ['setTimeout'] })
    const { ports, aside } = openPorts()
    await aside.ask('sweep', '/spool', { graceMs: 0, idTtlMs: 0 })
    const [first] = ports
    assert.ok(first)
    first.isSilent = true
    const answer = aside.ask('sweep', '/spool', { graceMs: 0, idTtlMs: 0 })
    mock.timers.tick(3_600_000)
    mock.timers.reset()
    assert.equal(first.isKilled, false)
    aside.close()
    await assert.rejects(answer, /has ended/)
  })

  it('answers nobody once it is closed', async () => {
    const { ports, aside } = openPorts()
    await aside.ask('forget', '/spool', 1)
    for (const port of ports) port.isSilent = true
    const answer = aside.ask('forget', '/spool', 1)
    aside.close()
    await assert.rejects(answer, /has ended/)
    await assert.rejects(aside.ask('forget', '/spool', 1), /has ended/)
    assert.equal(ports.length, 1)
  })
})
