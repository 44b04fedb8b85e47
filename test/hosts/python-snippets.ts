import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { after, before, it } from 'node:test'
import { PYTHON } from '../helpers/python.js'
import { workspace } from '../helpers/workspace.js'
import { pythonEnv } from './named-host.js'

/** What each snippet has: `spool()` makes a directory, `stored(spool)` reads its tasks, `raises(kind, text, call)` checks an error. */
const PRELUDE = `
import errno, gc, itertools, json, logging, math, os, struct, sys, tempfile, threading, time, traceback, uuid
from datetime import date, datetime, timedelta, timezone

def spool():
    return tempfile.mkdtemp(dir=os.environ['WORKSPACE'])

def tasks_in(path):
    return sorted((name for name in os.listdir(path) if not name.startswith('.')), key=lambda name: int(name.split('_')[5]))

def packet_in(file):
    with open(file, 'rb') as opened: data = opened.read()
    at, end, pairs = 4, 4 + struct.unpack_from('<H', data, 1)[0], {}
    while at < end:
        key = data[at + 2 : at + 2 + struct.unpack_from('<H', data, at)[0]]
        at += 2 + len(key)
        value = data[at + 2 : at + 2 + struct.unpack_from('<H', data, at)[0]]
        at += 2 + len(value)
        pairs[key.decode()] = value.decode()
    return {**pairs, 'body': data[end:]} if data[end:] else pairs

def stored(path):
    return [packet_in(os.path.join(path, name)) for name in tasks_in(path)]

def raises(kind, text, call):
    try: got = call()
    except Exception as error:
        assert type(error) is kind or isinstance(error, kind) and kind is not Exception, '%s: %s' % (type(error).__name__, error)
        assert text in str(error), str(error)
        return error
    raise AssertionError('it returned %r' % (got,))
`

const RUN = `
import gc, json, os, sys, traceback
import warnings; warnings.simplefilter('error', ResourceWarning)
prelude, snippets = json.load(sys.stdin)
results = {}
for title, code in snippets.items():
    names = {'__name__': 'snippet'}
    try:
        exec(compile(prelude, '<prelude>', 'exec'), names)
        exec(compile(code, '<snippet>', 'exec'), names)
        results[title] = None
    except BaseException:
        results[title] = traceback.format_exc()
    del names
    gc.collect() # the registries of one are none of the next; a server that one left runs on
with open(os.environ['WORKSPACE'] + '/results', 'w') as file: json.dump(results, file)
`

/** Tests that are written in Python: all of a suite run in one interpreter, one after the other. */
export class Snippets {
  readonly #codes = new Map<string, string>()
  readonly #results = new Map<string, string | null>()
  readonly #directory = workspace()

  /** Call it in a suite. @param python the interpreter @param env besides that of the library */
  constructor(prelude = '', python = PYTHON, env: NodeJS.ProcessEnv = {}) {
    before(() => {
      const { status, stderr } = spawnSync(python, ['-c', RUN], {
        cwd: this.#directory,
        input: JSON.stringify([`${PRELUDE}\n${prelude}`, Object.fromEntries(this.#codes)]),
        env: { ...process.env, ...pythonEnv(), WORKSPACE: this.#directory, ...env },
        timeout: 120_000,
        encoding: 'utf8',
      })
      const file = `${this.#directory}/results`
      if (status !== 0) throw new Error(`${python}: ${status}\n${stderr}`)
      for (const [title, result] of Object.entries(readJson(file))) this.#results.set(title, result)
    })
    after(() => this.#results.clear())
  }

  it(title: string, code: string): void {
    this.#codes.set(title, code)
    it(title, () => {
      const result = this.#results.get(title)
      if (result !== null) throw new Error(result ?? 'it did not run')
    })
  }
}

function readJson(file: string): Record<string, string | null> {
  return JSON.parse(readFileSync(file, 'utf8'))
}
