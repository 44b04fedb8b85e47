import assert from 'node:assert/strict'
import childProcess from 'node:child_process'
import { openSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { describe, it } from 'node:test'
import { Emitter } from '#src/base/events/emitter.js'
import type { CronCommand } from '#src/base/task/schedule.js'
import { Commands } from '#src/runtime/schedule/commands.js'
import { until } from '../helpers/until.js'

const entry = (command: string) => ({ command, isUnique: false, harakiriMs: 0 }) as unknown as CronCommand

const SAME = { kind: 'process', directory: null, umask: null, environment: [] } as const

describe('a command of cron', () => {
  it('is reported if there is no memory to start it, and the next command runs', async () => {
    const events = new Emitter()
    const heard: string[] = []
    events.on('command-failed', ({ command, error }) => heard.push(`${command}: ${error}`))
    events.on('command-ended', ({ command }) => heard.push(`${command} ended`))
    const commands = new Commands({
      events,
      logFd: () => openSync('/dev/null', 'w'),
      surroundings: () => SAME,
    })
    const { spawn } = childProcess
    childProcess.spawn = (() => {
      throw Object.assign(new Error('spawn ENOMEM'), { code: 'ENOMEM' }) // as Node does
    }) as unknown as typeof spawn
    syncBuiltinESMExports()
    try {
      commands.run(entry('first'))
    } finally {
      childProcess.spawn = spawn
      syncBuiltinESMExports()
    }
    commands.run(entry('true'))
    await until('the next command has ended', () => heard.length === 2)
    assert.deepEqual(heard, ['first: spawn ENOMEM', 'true ended'])
  })
})
