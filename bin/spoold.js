#!/usr/bin/env node
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major < 20 || (major === 20 && minor < 19)) {
  process.stderr.write(`spoold: expected Node 20.19 or later, got ${process.version} (${process.execPath})\n`)
  process.exit(1)
}

// Files are synced in libuv's threads, and what is synced side by side shares a commit of the file system's journal: four
// threads are too few. libuv reads the number when it is first used, which for an ES module is before its first line.
const { access } = require('node:fs')

const { UV_THREADPOOL_SIZE } = process.env
process.env.UV_THREADPOOL_SIZE ??= '16'
access('/', () => {})
if (UV_THREADPOOL_SIZE === undefined) delete process.env.UV_THREADPOOL_SIZE // the workers' programs have their own

// Signals that a daemon obeys or passes over would end this process until it listens, some 200 ms from here. They are kept
// until then; TERM and INT are not, which have to end it at once; nor is PROF, by which V8 profiles.
const early = []
const keep = signal => early.push(signal)
const SIGNALS = [
  'SIGHUP',
  'SIGUSR1',
  'SIGUSR2',
  'SIGALRM',
  'SIGVTALRM',
  'SIGIO',
  'SIGPWR',
  'SIGTSTP',
  'SIGTTIN',
]
for (const signal of SIGNALS) process.on(signal, keep)
function release() {
  for (const signal of SIGNALS) process.off(signal, keep)
}

require('../dist/spoold.cjs').start({ kept: early, release })
