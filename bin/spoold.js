#!/usr/bin/env node
// Files are synced in libuv's threads, and what is synced side by side shares a commit of the file system's journal: four
// threads are too few. libuv reads the number when it is first used, which for an ES module is before its first line.
const { access } = require('node:fs')

const { UV_THREADPOOL_SIZE } = process.env
process.env.UV_THREADPOOL_SIZE ??= '16'
access('/', () => {})
if (UV_THREADPOOL_SIZE === undefined) delete process.env.UV_THREADPOOL_SIZE // the workers' programs have their own
import('../dist/cli/main.js')
