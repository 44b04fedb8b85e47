import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { describe, it } from 'node:test'
import { packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { asked, compare, EVERY_BYTE, name, type Program } from './side-by-side.js'

const ANSWERS = 'ok retry ignore five negative nil true false text float huge array'.split(' ')
const RAISES = 'error own exit throw nil zero missing abort deep binary interrupt none'.split(' ')

const PROGRAMS: Readonly<Record<string, Program>> = {
  'a handler gets the same bytes in values and bodies, in the same encoding and order, empty ones included': {
    language: 'ruby',
    name: 'values',
    tasks: {
      'inner/.keep': packet({ not: 'a task' }),
      [name('a_plain')]: packet({ hello: 'world', number: '17', 'a key': 'a value' }),
      [name('b_bytes')]: packet({ [EVERY_BYTE.toString('latin1')]: EVERY_BYTE, utf8: '☺é', empty: '' }),
      [name('c_body')]: packet({ k: 'v' }, EVERY_BYTE),
      [name('d_only_body')]: packet({}, 'body'),
      [name('e_large')]: packet({ k: 'v'.repeat(65_000) }, Buffer.alloc(300_000, EVERY_BYTE)),
      [name('f_named_body')]: packet({ body: 'an ordinary key', spooler_task_name: 'another' }, 'the body'),
      [`7/${name('g_urgent')}`]: packet({ priority: '7' }),
    },
    isOver: ({ calls, left }) => calls.length === 9 && left.length === 1,
  },
  'each answer has the same outcome, and printed lines are in the log': {
    language: 'ruby',
    name: 'answers',
    tasks: asked(ANSWERS),
    isOver: ({ journaled }) => journaled > 2 * ANSWERS.length,
  },
  'each exception leads to a retry, that of exit included': {
    language: 'ruby',
    name: 'raises',
    tasks: asked(RAISES),
    isOver: ({ journaled }) => journaled > 2 * RAISES.length,
  },
  'a task that enqueues makes the same files with the same contents, and gets the same refusals': {
    language: 'ruby',
    name: 'spools',
    tasks: { [name('go')]: packet({ go: '1' }) },
    hasOwnOrder: true,
    isOver: ({ calls, left }) => calls.length === 14 && left.length === 1,
  },
  'the rest of the module gives the same values': {
    language: 'ruby',
    name: 'module',
    tasks: { [name('go')]: packet({ go: '1' }) },
    ini: { mine: ['1', '2'], empty: '' },
    isOver: ({ left }) => left.length === 0,
  },
  'signals and timers call the same functions': {
    language: 'ruby',
    name: 'signals',
    tasks: { [name('go')]: packet({ go: '1' }) },
    ini: { 'spooler-chdir': '/usr' },
    isOver: ({ calls }) => calls.length === 4,
  },
}

const dsl = process.env.SPOOLD_TEST_UWSGIDSL ?? ''
/** A reason to skip: uwsgidsl.rb is in no package, so the environment has to name it. */
const withoutDsl =
  !existsSync(dsl) && 'SPOOLD_TEST_UWSGIDSL names no file: uwsgidsl.rb of the source of uWSGI'
const dslTasks = {
  [name('first')]: packet({ ud_spool_func: '1', word: 'hello' }, 'the body'),
}

const skip = skipUnless('uwsgi-ruby', 'ruby')

describe('Ruby programs under uWSGI and under spoold', { skip }, () => {
  for (const [what, program] of Object.entries(PROGRAMS)) it(what, () => compare(program))
})

describe('uwsgidsl.rb, unmodified, under uWSGI and under spoold', { skip: skip || withoutDsl }, () => {
  it('calls the same functions', () =>
    compare({
      language: 'ruby',
      name: 'dsl',
      tasks: dslTasks,
      ini: { 'rb-lib': dirname(dsl) },
      hasOwnOrder: true,
      isOver: ({ calls, left }) => calls.length === 5 && left.length === 0,
    }))
})
