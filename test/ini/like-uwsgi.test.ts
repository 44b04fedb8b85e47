import assert from 'node:assert/strict'
import { availableParallelism, cpus } from 'node:os'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { isLong, skipUnless } from '../helpers/requires.js'
import { DEBIAN, PYPI, UWSGIS, type Uwsgi } from '../helpers/uwsgi.js'
import type { Given } from './reading.js'
import { compare, versionOf } from './uwsgi-oracle.js'

/** Lines of the section uwsgi, or files, command lines and environments. */
type Snippet = string | (Given & OfOne)

/** Restricts a snippet to one uWSGI, because of what that was built with. */
interface OfOne {
  readonly of?: Uwsgi
}

const ini = (snippet: Snippet): Given & OfOne =>
  typeof snippet === 'string' ? { files: { 'app.ini': `[uwsgi]\n${snippet}` } } : snippet

const isOf = (uwsgi: Uwsgi, { of }: OfOne) => of === undefined || of === uwsgi

const SAME: Readonly<Record<string, Readonly<Record<string, Snippet>>>> = {
  lines: {
    'an empty file': { files: { 'app.ini': '' } },
    'an empty section': '',
    'keys in their order': 'b = 1\na = 2\nc = 3\n',
    'repeated keys': 'a = 1\nb = 2\na = 3\na = 1\n',
    'no line end at the end': 'a = 1\nb = 2',
    CRLF: 'a = 1\r\nb = 2\r\n\r\nc=3\r\n',
    'blanks around everything': ' \t a\t =\t 1 \t\r\n\tb=2\t\n',
    'blanks inside': 'a b = c  d\ne\tf = g\th\n',
    'form feeds and vertical tabs are no blanks': 'a =\f1\v\n\fb = 2\n',
    'carriage returns inside': 'a = b\rc\n',
    'an equals sign in the value': 'a = b=c = d\n==x\na==\n',
    'no equals sign': 'a\nb c\nc =\n',
    'no key': '= 1\n=\n = x\n',
    comments: '; a = 1\n# b = 2\n  ; c = 3\n\t# d = 4\na = 1\n',
    'no inline comments': 'a = 1 ; one\nb = 2 # two\nc=;\nd=#x\n',
    'quotes and escapes are literal': `a = "x"\nb = 'y'\nc = "z\nd = \\n\\t\\\\\ne = x\\\nf = "a" ; b\n`,
    'what JSON would take for more': 'a = null\nb = true\nc = {}\nd = [1]\ne = 1e3\n',
    'what ini packages take for more': 'a[] = 1\na[] = 2\nb.c = 3\n"d" = 4\n__proto__ = 5\nconstructor = 6\n',
    'prototype names':
      'toString = 1\n__proto__ = 2\nhasOwnProperty = 3\nx = %(toString) %(valueOf) $(constructor)\n',
    'Unicode, and its line separators': 'ä = ö\na = x\u2028y\u2029z\u0085\nb = 😀 \u00a0\n\u00a0c = 1\n',
    'NUL ends a line': 'a = 1\0junk\nb\0 = 2\n\0c = 3\nd = 4\n',
    'control characters': 'a = \u0001\u0007x\u001b[0m\n\u0001b = 2\n',
    'a long line': `a = ${'x'.repeat(5000)}\n${'k'.repeat(3000)} = 1\n`,
  },
  sections: {
    'only the wanted section is read': 'a = 1\n[other]\nb = 2\n',
    'a section may come several times': 'a = 1\n[other]\nb = 2\n[uwsgi]\nc = 3\n',
    'keys before any section': { files: { 'app.ini': 'a = 1\n[uwsgi]\nb = 2\n' } },
    'no section at all': { files: { 'app.ini': 'a = 1\n' } },
    'blanks around the line': { files: { 'app.ini': ' \t[uwsgi]\t \r\na = 1\n' } },
    'blanks inside the brackets': { files: { 'app.ini': '[ uwsgi ]\na = 1\n' } },
    'no closing bracket': { files: { 'app.ini': '[uwsgi\na = 1\n' } },
    'any last character closes': { files: { 'app.ini': '[uwsgiX\na = 1\n' } },
    'a comment behind a section': { files: { 'app.ini': '[uwsgi] ; x\na = 1\n' } },
    'a lone bracket': { files: { 'app.ini': '[uwsgi]\na = 1\n[\nb = 2\n' } },
    'empty brackets': { files: { 'app.ini': '[uwsgi]\na = 1\n[]\nb = 2\n' } },
    'upper case': { files: { 'app.ini': '[UWSGI]\na = 1\n' } },
    'prototype names': {
      files: { 'app.ini': '[__proto__]\na = 1\n[constructor]\nb = 2\n[uwsgi]\nc = 3\n' },
      argv: ['--ini', 'app.ini:__proto__', '--ini', ':constructor', '--ini', ':uwsgi'],
    },
    'a byte-order mark hides the first line': {
      files: { 'app.ini': '\ufeff[uwsgi]\na = 1\n[uwsgi]\nb = 2\n' },
    },
    'a named section': {
      files: { 'app.ini': '[uwsgi]\na = 1\n[web]\nb = 2 %x\n' },
      argv: ['--ini', 'app.ini:web'],
    },
    'a named section that is missing': {
      files: { 'app.ini': '[uwsgi]\na = 1\n' },
      argv: ['--ini', 'app.ini:web'],
    },
    'an empty name means uwsgi': { files: { 'app.ini': '[uwsgi]\na = %x\n' }, argv: ['--ini', 'app.ini:'] },
    'a name with a dot, a space, a slash': {
      files: { 'app.ini': '[a.b]\na = 1\n[c d]\nb = 2\n[e/f]\nc = 3\n' },
      argv: ['--ini', 'app.ini:a.b', '--ini', 'app.ini:c d', '--ini', 'app.ini:e/f'],
    },
    'a section name alone rereads the last file': {
      files: { 'app.ini': '[uwsgi]\na = 1\nini = :more\nb = 2\n[more]\nc = %x|%s\n' },
    },
    'a file of any suffix': { files: { 'app.conf': '[uwsgi]\na = %n %e\n' }, argv: ['--ini', 'app.conf'] },
    'a file with the suffix xml': { files: { 'app.xml': '[uwsgi]\na = 1\n' }, argv: ['--ini', 'app.xml'] },
  },
  magic: {
    'of the file': 'a = %p|%o|%d|%s|%n|%e|%c|%x|%i|%j|%v\n',
    'of the system': 'a = %h|%u|%U|%g|%G|%V\n',
    'of the directories': 'a = %0|%1|%2|%3|%4|%5|%6|%7|%8|%9\n',
    'of the first file': {
      files: {
        'app.ini':
          '[uwsgi]\na = %P|%O|%D|%S|%N|%E|%C|%X|%I|%J\ninclude = sub/b.ini\nini = :x\n[x]\nd = %s|%S\n',
        'sub/b.ini': '[uwsgi]\nb = %p|%P|%s|%S|%x|%X|%d|%D\nini = sub/c.txt\n[x]\nd = %s|%x\n',
        'sub/c.txt': '[uwsgi]\nc = %S|%s|%o|%n|%e|%N|%E\n',
      },
    },
    'of files behind the first one': {
      files: { 'a.ini': '[uwsgi]\na = %S|%s\n', 'b.ini': '[uwsgi]\nb = %S|%s|%x|%X\n[s]\nc = %x|%X\n' },
      argv: ['--ini', 'a.ini', '--ini', 'b.ini', '--ini', ':s'],
    },
    'of an included file alone': {
      files: { 'a.ini': '[uwsgi]\na = [%S]|%s|[%P]\n' },
      argv: ['--include', 'a.ini'],
    },
    'of dotted names': {
      files: {
        'a.b.c': '[uwsgi]\na = %n|%e|%s\n',
        '.hidden': '[uwsgi]\na = [%n]|%e\n',
        'dot.': '[uwsgi]\na = %n|[%e]\n',
        plain: '[uwsgi]\na = %n|[%e]\n',
      },
      argv: ['--ini', 'a.b.c', '--ini', '.hidden', '--ini', 'dot.', '--ini', 'plain'],
    },
    'of an untidy path': {
      files: { 'sub/a.ini': '[uwsgi]\na = %p|%o|%d|%c\n' },
      argv: ['--ini', './sub/..//sub/./a.ini'],
    },
    'unknown letters stand for nothing': 'a = [%z%Y%-%m%"% %;]\n',
    'a percent sign is written twice': 'b = 1\na = %%d x%%(b) %%%d 100%%\n',
    'a parenthesis keeps its percent sign': 'a = %(nope %(\n',
    ESC: 'a = %[[0m\n',
    'also in keys, comments and section names': {
      files: { 'app.ini': '; %p\n[%n]\na = 1\n[uwsgi]\nk%n = 2\n;%\nb = 3\n' },
      argv: ['--ini', 'app.ini', '--ini', 'app.ini:app'],
    },
    'a percent sign at the end of a line joins the next line': 'a = 1%\nb = 2\nc = 3%%\nd = 4\n',
    'a percent sign before CRLF joins no line': 'a = 1%\r\nb = 2\n',
    'several lines joined': 'a = 1%\n%\n%%\nb = 2\n',
    'a percent sign before a NUL': 'a = 1%\0 2\nb = 3\n',
    'letters are not expanded on the command line': { files: {}, argv: ['--set', 'a=%p%%'] },
    'letters are not expanded in the environment': { files: {}, argv: [], env: { UWSGI_A: '%p%%' } },
  },
  placeholders: {
    'of another option': 'a = 1\nb = x%(a)y%(a)\n',
    forward: 'b = x%(a)\na = 1\n',
    'forward over two': 'c = x%(b)\nb = y%(a)\na = 1\n',
    'the first of a repeated key': 'a = 1\na = 2\nb = %(a)\na = 3\n',
    'of an empty value': 'a =\nb = [%(a)]\n',
    'of a key with blanks around it': 'a = 1\nb = [%( a)] [%(a )] [%( a )]\n',
    'of a key with a dot or a dash': 'a.b = 1\na-b = 2\nc = %(a.b)%(a-b)\n',
    'unknown placeholders stay': 'a = %(nope) $(NOPE) x\n',
    'empty placeholders stay': 'a = %() $() @()\n',
    'unclosed placeholders stay': 'a = 1\nb = %(a\nc = %(a %(a)\nd = $(NAME\n',
    'inside each other': 'key = b\nab = found\nc = x%(a%(key)) %(nope%(key))\nb = 2\n',
    'with parentheses in the name': 'a(b) = 1\nc = x%(a(b))\nd = %(a(b)\ne = %((x))\n',
    'with a symbol in the name': 'a = 1\nb = x%(a%%b) $(NA$ME)\n',
    'symbols without parentheses': 'a = 1\nb = $ $a $$ @a %% %%%(a) $$(NAME)\n',
    'of the environment': 'a = $(NAME) $(EMPTY)| $(NOPE)\nb = x$(NAME)$(NAME)\n',
    'of the environment inside an option': 'a = $(NAME)\nb = %(a)\nc = $(%(d))\nd = NAME\n',
    'in the value of an environment variable': {
      files: { 'app.ini': '[uwsgi]\na = x$(R) %(b)\nb = 1\n' },
      env: { R: '%(b) $(NAME)' },
    },
    'of files': {
      files: {
        'app.ini': '[uwsgi]\na = [@(one)] [@(two)] [@(three)] [@(four)] [@(five)]\n',
        one: '1',
        two: '2\n',
        three: '3\n\n',
        four: '4\r\n',
        five: '',
      },
    },
    'in the content of a file': {
      files: { 'app.ini': '[uwsgi]\na = x@(f)\nb = 1\n', f: '$(NAME) %(b) x@(g)', g: 'G\n' },
    },
    'of a file that an option names': {
      files: { 'app.ini': '[uwsgi]\na = x@(%(f)) y@($(F))\nf = one\n', one: '1' },
      env: { F: 'one' },
    },
    'of a file with a NUL': { files: { 'app.ini': '[uwsgi]\na = x@(f)x\n', f: 'a\0b' } },
    'of logic keys': 'for = 1 2\nx = %(_)\nendfor\nf = [%(for)] [%(endfor)] [%(x)]\n',
    'not in options that act at once':
      'n = a\ninclude-this = %(n)\nset = b=%(n)\nset-ph = c=%(n)\ne = x%(c)\nif-env = %(n)\nendif\n',
    'many in one value': `a = 1\nb = ${'%(a)'.repeat(500)}\n`,
  },
  arithmetic: {
    joins: 'three = 3\nfour = 4\na = x%(three four)\nb = x%(three four three)\nc = x%(3 4 nope 5)\n',
    adds: 'three = 3\nfour = 4\na = x%(three + four)\nb = x%(three four + 2)\nc = x%(1 + 2 3)\n',
    subtracts: 'three = 3\na = x%(three - 5)\nb = x%(- three)\nc = x%(three - - 1)\n',
    'multiplies and divides from left to right':
      'a = x%(1 + 2 * 3)\nb = x%(7 / 2)\nc = x%(0 - 7 / 2)\nd = x%(7 / 0)\n',
    'increments and decrements':
      'three = 3\na = x%(three ++)\nb = x%(three --)\nc = x%(three ++ ++ 5)\nd = x%(++ three)\ne = x%(three + ++ 5)\n',
    'needs blanks': 'a = 1\nb = x%(a+1) x%(a +1) x%(a+ 1)\n',
    'takes any number of blanks': 'a = 1\nb = x%(a  +  2) x%( a + 2 ) x%(  )\n',
    'operators alone stay': 'a = x%( + ) x%(++ --) x%(- )\n',
    'text counts as its leading digits':
      'a = 12x\nb =  -7\nc = x%(a + 1) x%(b + 1) x%(nope + 1) x%(0x10 + 1)\nd = +5\ne = x%(d + 1)\n',
    'counts in 64 bits':
      'a = x%(9223372036854775807 + 0)\nb = x%(9223372036854775807 + 1)\nc = x%(99999999999999999999 + 0)\nd = x%(9223372036854775807 * 3)\n',
    'leading zeros are decimal': 'a = 010\nb = x%(a + 1) x%(a) x%(007 008)\n',
    'values that are expressions themselves': 'a = %(b + 1)\nb = 5\nc = x%(a + 1)\n',
  },
  logic: {
    'for repeats each line': 'for = a b\nx = 1%(_)\ny = 2%(_)%(_)\nz = 3\nendfor\n',
    'for over nothing': 'for =\nx = %(_)\nendfor\ny = 1\n',
    'for splits at spaces': 'for =  a   b\tc  \nx = [%(_)]\nendfor\n',
    'only values are repeated': 'for = a b\nx%(_) = 1\nendfor\n',
    'for-times':
      'for-times = 3\nx = %(_)\nend-for\nfor-times = 0\ny = 1\nend\nfor-times = -2\ny = 1\nend\nfor-times = 2x\nz = %(_)\nend\nfor-times = x\nz = %(_)\nend\n',
    'for-glob': {
      files: {
        'app.ini':
          '[uwsgi]\nfor-glob = d/*.txt\na = %(_)\nend\nfor-glob = d/[!b]?*\nb = %(_)\nend\nfor-glob = */x\nc = %(_)\nend\nfor-glob = nope/*\nd = %(_)\nend\nfor-glob = d\ne = %(_)\nend\nfor-glob = d/.*n\nf = %(_)\nend\nfor-glob = d/{b,c}.txt\ng = %(_)\nend\nfor-glob = %d*/x\nh = %(_)\nend\nfor-glob =\ni = [%(_)]\nend\nfor-glob = d//[a-b].*\nj = %(_)\nend\nfor-glob = d/\\*\nk = %(_)\nend\nfor-glob = d/*/\nl = %(_)\nend\nfor-glob = d/[\nm = %(_)\nend\nfor-glob = d/[]x]\nn = %(_)\nend\n',
        'd/b.txt': '',
        'd/a.txt': '',
        'd/c.TXT': '',
        'd/x': '',
        'd/.hidden': '',
        'd/sub/x': '',
        'e/x': '',
        'd/*': '',
      },
    },
    'for-readline': {
      files: {
        'app.ini':
          '[uwsgi]\nfor-readline = f\na = [%(_)]\nend\nfor-readline = empty\nb = %(_)\nend\nfor-readline = g\nc = [%(_)]\nend\n',
        f: 'one\n two \n\nthree\r\n',
        empty: '',
        g: 'no end',
      },
    },
    'for-readline of a missing file repeats nothing': 'for-readline = nope\na = %(_)\nend\nb = 1\n',
    'if-env':
      'if-env = NAME\na = %(_)\nendif\nif-env = NOPE\nb = 1\nendif\nif-env = NAME=value\nc = %(_)\nendif\nif-env = NAME=other\nd = 1\nendif\nif-env = EMPTY\ne = [%(_)]\nendif\nif-env =\nf = 1\nendif\nifenv = NAME=\ng = 1\nendif\nif-env = EMPTY=\nh = 1\nend\n',
    'if-not-env':
      'if-not-env = NAME\na = %(_)\nendif\nif-not-env = NOPE\nb = %(_)\nendif\nif-not-env = NAME=value\nc = %(_)\nendif\nif-not-env = NAME=other\nd = %(_)\nendif\n',
    'if-opt':
      'k = v\nk = w\nif-opt = k\na = %(_)\nendif\nif-opt = k=v\nb = %(_)\nendif\nif-opt = k=w\nc = %(_)\nendif\nif-opt = nope\nd = 1\nendif\nif-opt = later\ne = 1\nendif\nlater = 1\n',
    'if-not-opt':
      'k = v\nif-not-opt = k\na = %(_)\nendif\nif-not-opt = k=w\nb = %(_)\nendif\nif-not-opt = nope\nc = %(_)\nendif\nif-not-opt = k=v\nd = 1\nendif\n',
    'if-opt sees what the block before set': 'if-not-opt = a\na = 1\na = 2\nendif\n',
    'if-exists, if-file, if-dir': {
      files: {
        'app.ini': `[uwsgi]\n${['exists', 'file', 'dir', 'directory'].flatMap(what => ['', 'not-'].flatMap(not => ['f', 'd', 'nope', 'f/x', ''].map(path => (what === 'directory' && not !== '' ? '' : `if-${not}${what} = ${path}\n${not}${what}-${path} = %(_)\nendif\n`)))).join('')}ifexists = f\ny = %(_)\nendif\nifdir = d\nz = %(_)\nendif\n`,
        f: '',
        'd/x': '',
      },
    },
    'if-plugin':
      'if-plugin = nope\na = %(_)\nendif\nif-not-plugin = nope\nb = %(_)\nendif\nifplugin = nope\nc = 1\nendif\n',
    'if-hostname':
      'if-hostname = %h\na = %(_)\nendif\nif-not-hostname = %h\nb = %(_)\nendif\nif-hostname = nope\nc = 1\nendif\nif-not-hostname = nope\nd = %(_)\nendif\n',
    'if-hostname-match': {
      of: DEBIAN,
      files: {
        'app.ini':
          '[uwsgi]\nif-hostname-match = ^[^/]+$\na = %(_)\nendif\nif-not-hostname-match = ^/\nb = %(_)\nendif\nif-hostname-match = /\nc = 1\nendif\n',
      },
    },
    'if-reload': 'if-reload =\na = %(_)\nendif\nif-not-reload =\nb = %(_)\nendif\n',
    'every kind of end ends every block': ['end', 'endif', 'endfor', 'end-if', 'end-for']
      .map(end => `for = a\nx = %(_)\n${end} = 1\ny = %(_)\n`)
      .join(''),
    'an end that ends nothing': 'endif\na = 1\nend\n',
    'an else outside of a block': 'else\na = 1\nif-env = NOPE\nb = 1\nendif\nelse\nc = 1\nendif\nd = 1\n',
    'a block that is never ended': 'for = a b\nx = %(_)\n',
    'a block does not end with its file': {
      files: { 'a.ini': '[uwsgi]\nfor = a b\n', 'b.ini': '[uwsgi]\nx = %(_)\nend\ny = %(_)\n' },
      argv: ['--ini', 'a.ini', '--ini', 'b.ini'],
    },
    'logic in a dropped block is dropped': 'if-env = NOPE\nfor = a b\nx = %(_)\nendfor\ny = %(_)\nendif\n',
    'logic in a kept block is an error': 'if-env = NAME\nfor = a b\nx = %(_)\nendfor\n',
    'logic in logic is an error': 'for = a b\nfor = c d\nx = %(_)\nend\nend\n',
    'arguments are literal': 'n = NAME\nif-env = %(n)\na = 1\nendif\nfor = $(NAME) %(n)\nb = %(_)\nendfor\n',
    'an item names a placeholder': 'n = 5\nfor = n nope\na = x%(%(_))\nb = x$(%(_))\nendfor\n',
    'set inside a block': 'for = a b\nset = k%(_)=v%(_)\nset-ph = p%(_)=v%(_)\nendfor\n',
    'set begins and ends a block': 'set = for=a b\nx = %(_)\nset = endfor=\ny = %(_)\nendfor\n',
    'include inside a block': {
      files: {
        'app.ini': '[uwsgi]\nfor = 1 2\ninclude = b.ini\nendfor\nx = 1\n',
        'b.ini': '[uwsgi]\ny = %(_)\nendfor\nz = 1\n',
      },
    },
    'include of a file that the item names': {
      files: {
        'app.ini': '[uwsgi]\nfor = b c\ninclude = %(_).ini\nendfor\n',
        'b.ini': '[uwsgi]\ny = %n\n',
        'c.ini': '[uwsgi]\nz = %n\n',
      },
    },
    'a block in a file that is included inside a block is an error': {
      files: {
        'app.ini': '[uwsgi]\nif-env = NAME\ninclude = b.ini\nendif\n',
        'b.ini': '[uwsgi]\nif-env = NAME\ny = 1\nendif\n',
      },
    },
  },
  files: {
    'include stands where it is written': {
      files: { 'app.ini': '[uwsgi]\na = 1\ninclude = b.ini\nc = 3\n', 'b.ini': '[uwsgi]\nb = 2\n' },
    },
    'inherit stands at the end, unexpanded': {
      files: {
        'app.ini': '[uwsgi]\na = 1\ninherit = %(n).ini\nc = x%(b)\nn = b\n',
        'b.ini': '[uwsgi]\nb = %(a) $(NAME) %n\nset = d=%(a)\n',
      },
    },
    'inherit of several, and of what they inherit': {
      files: {
        'app.ini': '[uwsgi]\ninherit = b.ini\ninherit = c.ini\n',
        'b.ini': '[uwsgi]\nb = 1\ninherit = d.ini\ninclude = e.ini\n',
        'c.ini': '[uwsgi]\nc = 1\n',
        'd.ini': '[uwsgi]\nd = 1\n',
        'e.ini': '[uwsgi]\ne = %(b)\n',
      },
    },
    'logic in what is inherited': {
      files: {
        'app.ini': '[uwsgi]\na = $(NAME)\ninherit = b.ini\n',
        'b.ini': '[uwsgi]\nif-opt = a=value\nb = %(_)\nendif\nfor = 1 2\nc = %(_)\nend\n',
      },
    },
    'the same file twice': {
      files: { 'app.ini': '[uwsgi]\ninclude = b.ini\ninclude = b.ini\n', 'b.ini': '[uwsgi]\nb = 1\n' },
    },
    'a missing file is an error': 'ini = nope.ini\n',
    'a missing include is an error': 'include = nope.ini\n',
    'a missing inherited file is an error': 'inherit = nope.ini\n',
    'a file that is named by a placeholder is an error': {
      files: { 'app.ini': '[uwsgi]\nn = b\ninclude = %(n).ini\n', 'b.ini': '[uwsgi]\n' },
    },
    'set without a value is an error': 'set = a\n',
    'set-ph of an option is an error': 'set-ph = spooler=x\n',
    'set-placeholder of any option is an error': 'set-placeholder = processes=2\n',
    'set adds an option':
      'set = a=1\nset = b = 2 \nset = c==3\nset = =4\nset-placeholder = d=5\nset-ph = e=%(a)\nf = x%(e)%(d)%(a)\n',
    'strict and an unknown option is an error': 'strict\nnope = 1\n',
    'strict and an unknown option before it is an error': 'nope = 1\nstrict = true\n',
    'strict and a placeholder': 'strict = 1\nset-ph = n=3\nspooler-max-tasks = %(n)\n',
    'strict and set is an error': 'strict\nset = n=3\n',
    'strict that is false': 'strict = false\nnope = 1\n',
    'strict and an unknown variable is an error': {
      files: { 'app.ini': '[uwsgi]\nstrict\n' },
      env: { UWSGI_NOPE: '1' },
    },
  },
  'command lines': {
    'options come before files': {
      files: { 'app.ini': '[uwsgi]\na = 1\n' },
      argv: ['app.ini', '--set', 'b=2', '--spooler-max-tasks', '3'],
    },
    'ini is read in its place': {
      files: { 'app.ini': '[uwsgi]\na = 1\n' },
      argv: ['--set', 'b=2', '--ini', 'app.ini', '--set=c=3'],
    },
    'the environment comes first': {
      files: { 'app.ini': '[uwsgi]\na = 1\n' },
      env: {
        UWSGI_SPOOLER_MAX_TASKS: '3',
        UWSGI_Some_Thing: 'a_B=c',
        UWSGI_: 'x',
        UWSGI_RELOADS: '1',
        UWSGI_EMPEROR_FD: '2',
        uwsgi_a: '4',
        XUWSGI_A: '5',
        SPOOL_A: '6',
      },
    },
    'flags and values, long and short': {
      argv: [
        '-M',
        '-p',
        '4',
        '-p5',
        '-Mp6',
        '--spooler-max-tasks=7',
        '--spooler-quiet',
        '-S',
        'a=b',
        '-Sc=d',
        '--memory-report',
        '-m',
        '--need-app',
        '--vacuum',
        '--no-orphans',
      ],
    },
    abbreviations: {
      argv: ['--spooler-proc', '3', '--spooler-qui', '--vacu', '--spooler-harak=4', '--no-orph'],
    },
    logic: {
      argv: [
        '--if-env',
        'NAME',
        '--set',
        'a=%(_)',
        '--endif',
        '--for',
        '1 2',
        '--set=b=%(_)',
        '--endfor',
        '--for-times=2',
        '--set',
        'c=%(_)',
        '--end-for=x',
        '--set',
        'd=%(_)',
      ],
    },
    placeholders: { argv: ['--set', 'a=1', '--set', 'b=x%(a)$(NAME)', '--spooler-max-tasks', '%(a)'] },
    'a value that looks like an option': {
      argv: ['--set', '--a=b', '--procname-prefix', '--master', '--spooler-max-tasks', '2'],
    },
    'an empty value': { argv: ['--procname-prefix=', '--set', 'a='] },
    'behind --': {
      files: { 'app.ini': '[uwsgi]\na = 1\n', 'b.ini': '[uwsgi]\nb = 2\n' },
      argv: ['--set', 'c=3', '--', 'app.ini', 'b.ini'],
    },
  },
}

interface Difference extends OfOne {
  readonly given: Snippet
  /** The lines that differ; undefined when uWSGI ends with an error. */
  readonly uwsgi?: readonly string[]
  /** Undefined when we report an error. */
  readonly ours?: readonly string[]
}

/** Everything in which we are not like uWSGI on purpose, and why. */
const DIFFERENT: Readonly<Record<string, Difference>> = {
  'else works, as in uWSGI 2.1': {
    given: 'if-env = NOPE\na = 1\nelse =\nb = 1\nendif\nif-env = NAME\nc = 1\nelse =\nd = 1\nendif\n',
    uwsgi: ['if-env = NOPE', 'endif = ', 'if-env = NAME', 'c = 1', 'else = ', 'd = 1', 'endif = '],
    ours: ['if-env = NOPE', 'else = ', 'b = 1', 'endif = ', 'if-env = NAME', 'c = 1', 'else = ', 'endif = '],
  },
  'defaults of variables work, as in uWSGI 2.1': {
    given: 'a = $(NOPE:-x) $(EMPTY:-x) $(NAME:-x)\nb = $(NOPE-x)$(EMPTY-x)$(NAME-x)\n',
    uwsgi: ['a = $(NOPE:-x) $(EMPTY:-x) $(NAME:-x)', 'b = $(NOPE-x)$(EMPTY-x)$(NAME-x)'],
    ours: ['a = x x value', 'b = xvalue'],
  },
  'options that uWSGI applies when it reads them are expanded too': {
    given: 'n = 3\nspooler-processes = %(n)\numask = $(NOPE:-022)\n',
    uwsgi: ['n = 3', 'spooler-processes = %(n)', 'umask = $(NOPE:-022)'],
    ours: ['n = 3', 'spooler-processes = 3', 'umask = 022'],
  },
  'a placeholder at the beginning of a value may expand to another one': {
    given: 'a = %(b)\nb = %(c)\nc = 1\n',
    uwsgi: ['a = %(c)', 'b = 1', 'c = 1'],
    ours: ['a = 1', 'b = 1', 'c = 1'],
  },
  'a value that refers to itself is an error': { given: 'a = %(a)\n', uwsgi: ['a = %(a)'] },
  'a bare argument may name a section': {
    given: { files: { 'app.ini': '[s]\na = 1\n' }, argv: ['app.ini:s'] },
    ours: ['a = 1'],
  },
  'included files may have any name': {
    given: { files: { 'app.ini': '[uwsgi]\ninclude = b.conf\n', 'b.conf': '[uwsgi]\nb = %e\n' } },
    ours: ['include = b.conf', 'b = conf'],
  },
  'a file may have a colon in its name': {
    given: { files: { 'a:b.ini': '[uwsgi]\na = 1\n' }, argv: ['--ini', 'a:b.ini'] },
    ours: ['a = 1'],
  },
  'only ini files are read': {
    of: DEBIAN,
    given: { files: { 'app.json': '{"uwsgi": {"a": 1}}' }, argv: ['app.json'] },
    uwsgi: ['a = 1'],
  },
  'if-hostname-match finds nothing in a uWSGI with PCRE2': {
    of: PYPI,
    given: 'if-hostname-match = ^[^/]+$\na = 1\nendif\nif-not-hostname-match = ^[^/]+$\nb = 1\nendif\n',
    uwsgi: [
      'if-hostname-match = ^[^/]+$',
      'endif = ',
      'if-not-hostname-match = ^[^/]+$',
      'b = 1',
      'endif = ',
    ],
    ours: ['if-hostname-match = ^[^/]+$', 'a = 1', 'endif = ', 'if-not-hostname-match = ^[^/]+$', 'endif = '],
  },
  'magic variables in capital letters describe a bare argument, too': {
    given: { files: { 'app.ini': '[uwsgi]\na = [%S]\n' }, argv: ['app.ini'] },
    uwsgi: ['a = []'],
    ours: ['a = [app.ini]'],
  },
  'an unknown magic variable of several bytes is removed as a whole': {
    given: 'a = %éx\n',
    uwsgi: ['a = \ufffdx'],
    ours: ['a = x'],
  },
  'a byte that is not UTF-8 becomes a character that stands for it': {
    given: { files: { 'app.ini': Buffer.from('[uwsgi]\na = \xff\n', 'latin1') } },
    uwsgi: ['a = \ufffd'], // as this test decodes it
    ours: ['a = \udcff'],
  },
  'lines of for-readline are not cut after 1023 bytes': {
    given: { files: { 'app.ini': '[uwsgi]\nfor-readline = f\na = %(_)\nend\n', f: 'x'.repeat(1500) } },
    uwsgi: ['for-readline = f', `a = ${'x'.repeat(1023)}`, `a = ${'x'.repeat(477)}`, 'end = '],
    ours: ['for-readline = f', `a = ${'x'.repeat(1500)}`, 'end = '],
  },
  'a wrong pattern does not match everything': {
    given: 'if-hostname-match = (\na = 1\nendif\n',
    uwsgi: ['if-hostname-match = (', 'a = 1', 'endif = '],
  },
  'a flag of the command line has an empty value, not none': {
    given: { files: { 'app.ini': '[uwsgi]\na = x%(vacuum)\n' }, argv: ['--vacuum', '--ini', 'app.ini'] },
    uwsgi: ['a = x%(vacuum)'],
    ours: ['a = x'],
  },
  'there are no plugins': {
    given: {
      files: { 'app.ini': '[uwsgi]\nif-plugin = python\na = 1\nendif\n' },
      argv: ['--plugin', 'python3', '--ini', 'app.ini'],
    },
    uwsgi: ['if-plugin = python', 'a = 1', 'endif = '],
    ours: ['if-plugin = python', 'endif = '],
  },
  'the name of the first file stays without its section': {
    given: {
      files: { 'app.ini': '[s]\na = %O\n[uwsgi]\nb = %O\n' },
      argv: ['--ini', 'app.ini:s', '--ini', 'app.ini'],
    },
    uwsgi: ['a = app.ini', 'b = app.ini:s'],
    ours: ['a = app.ini', 'b = app.ini'],
  },
  'end needs no name under strict': {
    given: 'strict = 1\nfor =\nend\n',
    ours: ['strict = 1', 'for = ', 'end = '],
  },
  'the program and its version are our own': {
    given: { files: { 'app.ini': '[uwsgi]\na = %V\n' }, version: '1.2.3' },
    ours: ['a = 1.2.3'],
    uwsgi: ['a = THEIR VERSION'],
  },
  'processors are those that this process may use': {
    given: 'a = %k\n',
    uwsgi: [`a = ${cpus().length}`],
    ours: [`a = ${availableParallelism()}`],
  },
  'a file that includes itself is refused instead of read for ever': { given: 'a = 1\nini = app.ini\n' },
}

for (const uwsgi of UWSGIS)
  describe(`the configuration reads like ${uwsgi.title}`, { skip: skipUnless(uwsgi.needs) }, () => {
    const version = skipUnless(uwsgi.needs) === false ? versionOf(uwsgi) : ''
    for (const [topic, snippets] of Object.entries(SAME))
      describe(topic, () => {
        for (const [title, snippet] of Object.entries(snippets))
          if (isOf(uwsgi, ini(snippet)))
            it(title, () => {
              const { theirs, ours } = compare(uwsgi, { version, ...ini(snippet) })
              if ('failure' in theirs)
                return assert.notDeepEqual(ours.errors, [], `uWSGI ended: ${theirs.failure}`)
              assert.equal(ours.list, theirs.list)
              assert.deepEqual(ours.errors, [])
            })
      })
  })

for (const uwsgi of UWSGIS)
  describe(`the configuration differs from ${uwsgi.title}`, { skip: skipUnless(uwsgi.needs) }, () => {
    for (const [title, { given, ...expected }] of Object.entries(DIFFERENT))
      if (isOf(uwsgi, expected))
        it(title, () => {
          const { theirs, ours } = compare(uwsgi, ini(given))
          const shown = 'list' in theirs ? withoutFlags(theirs.list) : undefined
          const wanted = expected.uwsgi?.map(line => line.replace('THEIR VERSION', versionOf(uwsgi)))
          assert.deepEqual(shown, wanted, JSON.stringify(theirs))
          assert.deepEqual(ours.errors.length > 0 ? undefined : withoutFlags(ours.list), expected.ours)
        })
  })

/** Returns only the lines that come from the files. */
function withoutFlags(list: string): string[] {
  return list
    .split('\n')
    .filter(line => line !== '' && !/^(no-server|show-config|ini|vacuum|plugin) =/.test(line))
}

/** Keys of which each may refer only to those before it, so that nothing refers to itself. */
const KEYS = ['k0', 'k1', 'k2', 'k3', 'k4']

const term = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.constantFrom(
      'x',
      'y z',
      '1',
      '-2',
      ' ',
      '=',
      ';',
      '"',
      'é',
      '(',
      ')',
      '\t',
      '\\',
      '%(',
      '%%',
    ),
  },
  fc.constantFrom(
    '$(NAME)',
    '$(EMPTY)',
    '$(NOPE)',
    '$(R)',
    '$(',
    '@(f)',
    '@(g)',
    '%(nope)',
    '%()',
    '%(_)',
    '$(N%(nope))',
  ),
  fc.constantFrom('%n', '%s', '%e', '%0', '%z', '%S', '%x', '%h', '%%n', '%', '%%%', '%%%%'),
)

const operand = (limit: number) => fc.constantFrom('1', '22', '007', 'nope', ...KEYS.slice(0, limit))
const expression = (limit: number) =>
  fc
    .array(fc.oneof(operand(limit), fc.constantFrom('+', '-', '*', '/', '++', '--', '')), {
      minLength: 1,
      maxLength: 6,
    })
    .map(parts => `%(${parts.join(' ')})`)

/** Returns values that begin with a letter: see "a placeholder at the beginning of a value". */
const value = (limit: number) =>
  fc
    .array(fc.oneof({ weight: 3, arbitrary: term }, { weight: 2, arbitrary: expression(limit) }), {
      maxLength: 5,
    })
    .map(parts => `v${parts.join('')}`)

const assignment = fc
  .nat(KEYS.length - 1)
  .chain(i =>
    fc
      .tuple(fc.constantFrom(' = ', '=', '\t=  '), value(i))
      .map(([equals, text]) => `${KEYS[i]}${equals}${text}`),
  )

const logic = fc.constantFrom(
  'for = a b c',
  'for =',
  'for-times = 2',
  'for-readline = f',
  'for-glob = *',
  'if-env = NAME',
  'if-env = NAME=other',
  'if-not-env = NOPE',
  'if-opt = k0',
  'if-opt = k1=v',
  'if-not-opt = k3',
  'if-exists = f',
  'if-dir = nope',
  'endfor',
  'endif',
  'end',
  'end-for = x',
  'endif',
  'endfor',
)

const other = fc.oneof(
  fc.constantFrom(
    '',
    '; c',
    '# %n',
    '[uwsgi]',
    '[other]',
    '[uwsgi',
    ' [uwsgi] ',
    '[uwsgi];',
    'alone',
    '= x',
    'include = b.ini',
    'ini = b.ini:more',
    'inherit = b.ini',
  ),
  value(KEYS.length).map(text => `set = s=${text}`),
  value(0).map(text => `set-ph = p=${text}`),
)

const file = fc
  .tuple(
    fc.array(fc.oneof({ weight: 5, arbitrary: assignment }, { weight: 2, arbitrary: logic }, other), {
      maxLength: 20,
    }),
    fc.constantFrom('\n', '\r\n'),
    fc.boolean(),
  )
  .map(([lines, end, isEnded]) => ['[uwsgi]', ...lines].join(end) + (isEnded ? end : ''))

/** Noise without parentheses, so without placeholders. */
const noise = fc
  .array(
    fc.constantFrom(
      '[',
      ']',
      '=',
      ';',
      '#',
      '%',
      ' ',
      '\t',
      '\r',
      '\n',
      '\n',
      '\0',
      'a',
      'uwsgi',
      '[uwsgi]\n',
      '"',
      "'",
      '\\',
      ':',
      ',',
      '{',
      'é',
      '\u2028',
    ),
    { maxLength: 60 },
  )
  .map(parts => parts.join(''))

for (const uwsgi of UWSGIS)
  describe(`generated configurations read like ${uwsgi.title}`, { skip: skipUnless(uwsgi.needs) }, () => {
    const version = skipUnless(uwsgi.needs) === false ? versionOf(uwsgi) : ''
    const agree = (generated: string) => {
      const text = generated
        .replace(/%+(?=[^\0-\x7f])/g, '') // see "a character that is no letter"
        .replace(/%$/, '%\n') // uWSGI reads behind its buffer where a percent sign is the very last byte
      const { theirs, ours } = compare(uwsgi, {
        files: {
          'app.ini': text,
          f: '1 $(NAME)\ntwo %(k0)x\n',
          g: 'g',
          'b.ini': '[uwsgi]\nb = %n %(k1)\n[more]\nc = %x %S %(k2)\n',
        },
        env: { R: '(r) $(NAME)' },
        version,
      })
      if ('failure' in theirs) assert.notDeepEqual(ours.errors, [], `uWSGI ended: ${theirs.failure}`)
      else {
        assert.equal(ours.list, theirs.list)
        assert.deepEqual(ours.errors, [])
      }
    }
    const settings = {
      seed: isLong ? Date.now() : 17,
      numRuns: isLong ? 10_000 : 400,
      interruptAfterTimeLimit: isLong ? 120_000 : 10_000,
    }

    it('whatever values, logic and sections they have', () => {
      fc.assert(fc.property(file, agree), settings)
    })

    it('even if they are noise', () => {
      fc.assert(fc.property(noise, agree), settings)
    })
  })
