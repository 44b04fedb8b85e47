import { describe, it } from 'node:test'
import { packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { asked, compare, EVERY_BYTE, name, type Program } from './side-by-side.js'

const ANSWERS =
  'ok retry ignore five negative undef nothing word text fraction list reference true false'.split(' ')
const DEATHS = 'line where object nothing zero method module missing croak none'.split(' ')

const PROGRAMS: Readonly<Record<string, Program>> = {
  'a handler gets the same bytes in values and bodies, without a text flag, in the same directory': {
    language: 'perl',
    name: 'values',
    tasks: {
      'inner/.keep': packet({ not: 'a task' }),
      [name('a_plain')]: packet({ hello: 'world', number: '17', 'a key': 'a value' }),
      [name('b_bytes')]: packet({ [EVERY_BYTE.toString('latin1')]: EVERY_BYTE, utf8: '☺é' }),
      [name('c_body')]: packet({ k: 'v' }, EVERY_BYTE),
      [name('d_only_body')]: packet({}, 'body'),
      [name('e_large')]: packet({ k: 'v'.repeat(65_000) }, Buffer.alloc(300_000, EVERY_BYTE)),
      [name('f_named_body')]: packet({ body: 'an ordinary key' }),
      [`7/${name('g_urgent')}`]: packet({ priority: '7' }),
    },
    isOver: ({ calls, left }) => calls.length === 9 && left.length === 1,
  },
  'each answer has the same outcome, and printed lines are in the log': {
    language: 'perl',
    name: 'answers',
    tasks: asked(ANSWERS),
    isOver: ({ journaled, left }) => left.length === 10 && journaled > 2 * ANSWERS.length,
  },
  'each way to die leads to a retry': {
    language: 'perl',
    name: 'dies',
    tasks: asked(DEATHS),
    isOver: ({ journaled }) => journaled > 2 * DEATHS.length,
  },
  'a task that enqueues makes the same files with the same contents, and gets the same refusals': {
    language: 'perl',
    name: 'spools',
    tasks: { [name('go')]: packet({ go: '1' }) },
    hasOwnOrder: true,
    isOver: ({ calls, left }) => calls.length === 15 && left.length === 1,
  },
  'the rest of the module gives the same values': {
    language: 'perl',
    name: 'module',
    tasks: { [name('go')]: packet({ go: '1' }) },
    ini: { mine: ['1', '2'], empty: '' },
    isOver: ({ left }) => left.length === 0,
  },
  'a write to a broken pipe is an error of the task, and kills no process': {
    language: 'perl',
    name: 'pipe',
    tasks: { [name('go')]: packet({ go: '1' }) },
    isOver: ({ left }) => left.length === 0,
  },
  'signals and timers call the same functions': {
    language: 'perl',
    name: 'signals',
    tasks: { [name('go')]: packet({ go: '1' }) },
    ini: { 'spooler-chdir': '/usr' },
    isOver: ({ calls }) => calls.length === 4,
  },
}

describe('Perl programs under uWSGI and under spoold', { skip: skipUnless('uwsgi-perl', 'perl') }, () => {
  for (const [what, program] of Object.entries(PROGRAMS)) it(what, () => compare(program))
})
