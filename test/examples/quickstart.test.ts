import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { childrenOf, isAlive, TestProcess } from '../helpers/process.js'
import { until } from '../helpers/until.js'
import { ROOT } from '../helpers/workspace.js'

const START = join(ROOT, 'spool-examples/quickstart/start.mjs')

describe('the quickstart', () => {
  it('runs under npm start, and exits with 0 at Ctrl-C', async () => {
    // a process group of its own, because a terminal's Ctrl-C goes to every process of the group
    const npm = new TestProcess('setsid', ['npm', 'start'], { cwd: ROOT })
    await npm.waitFor('hello world', 60_000)
    const everybody = descendantsOf(npm.pid)
    process.kill(-npm.pid, 'SIGINT')
    assert.equal(await npm.code(), 0)
    assert.match(npm.output, /goodbye/)
    await allGone(everybody)
  })

  it('runs all of its tasks, and exits with 0 when only the outer process gets SIGTERM', async () => {
    const start = new TestProcess(process.execPath, [START], { cwd: ROOT })
    for (const whom of ['world', 'patience', 'later']) await start.waitFor(`hello ${whom}`, 60_000)
    const tasks = [...start.output.matchAll(/^\/.*uwsgi_spoolfile_on_.*$/gm)].map(([path]) => path)
    assert.equal(tasks.length, 3)
    await until('the files of the tasks are gone', () => tasks.every(path => !existsSync(path)))
    assert.match(start.output, /not today/)
    const everybody = descendantsOf(start.pid)
    start.child.kill('SIGTERM')
    assert.equal(await start.code(), 0)
    await allGone(everybody)
  })
})

function descendantsOf(pid: number): number[] {
  return childrenOf(pid).flatMap(child => [child, ...descendantsOf(child)])
}

async function allGone(pids: readonly number[]): Promise<void> {
  assert.ok(pids.length >= 2)
  await until('all processes of the quickstart have ended', () => pids.every(pid => !isAlive(pid)))
}
