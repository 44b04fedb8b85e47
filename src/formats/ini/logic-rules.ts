import { accessSync, constants } from 'node:fs'
import { hostname } from 'node:os'
import { statsOf } from '../../system/file-stats.js'
import { glob } from './glob.js'
import { readText } from './read-text.js'

/** What a rule can ask about. */
export interface LogicContext {
  /** Returns the first value of an option, among those read so far. */
  option(name: string): string | undefined
  variable(name: string): string | undefined
  readonly isReload: boolean
}

export interface Verdict {
  readonly isTrue: boolean
  /** The replacement of `%(_)`; undefined leaves it as it is. */
  readonly item: string | undefined
}

type Condition = (argument: string, context: LogicContext) => Verdict
/** Yields the replacement of `%(_)` for each repetition. */
type Loop = (argument: string) => Iterable<string>

const aboutArgument =
  (test: (argument: string) => boolean): Condition =>
  argument => ({ isTrue: test(argument), item: argument })

/** `NAME` or `NAME=value` (core/config.c, uwsgi_logic_opt_if_opt): the item is the value of NAME. */
const aboutValue =
  (lookUp: (name: string, context: LogicContext) => string | undefined): Condition =>
  (argument, context) => {
    const cut = argument.indexOf('=')
    const value = lookUp(cut < 0 ? argument : argument.slice(0, cut), context)
    return { isTrue: value !== undefined && (cut < 0 || value === argument.slice(cut + 1)), item: value }
  }

/** The conditions. Each is `if-X` and, negated, `if-not-X`. */
const ABOUT: Readonly<Record<string, Condition>> = {
  opt: aboutValue((name, { option }) => option(name)),
  env: aboutValue((name, { variable }) => variable(name)),
  exists: aboutArgument(isReadable),
  file: aboutArgument(path => statsOf(path)?.isFile() ?? false),
  dir: aboutArgument(path => statsOf(path)?.isDirectory() ?? false),
  plugin: aboutArgument(() => false), // spoold has no plugins
  hostname: aboutArgument(name => hostname() === name),
  'hostname-match': aboutArgument(pattern => new RegExp(pattern).test(hostname())),
  reload: (_, { isReload }) => ({ isTrue: isReload, item: undefined }),
}

const ALIASES: Readonly<Record<string, string>> = {
  ifenv: 'env',
  ifexists: 'exists',
  ifdir: 'dir',
  'if-directory': 'dir',
  ifplugin: 'plugin',
}

export const CONDITIONS: ReadonlyMap<string, Condition> = new Map([
  ...Object.entries(ABOUT).flatMap(
    ([name, condition]): Array<[string, Condition]> => [
      [`if-${name}`, condition],
      [`if-not-${name}`, not(condition)],
    ],
  ),
  ...Object.entries(ALIASES).flatMap(([alias, name]): Array<[string, Condition]> => {
    const condition = ABOUT[name]
    return condition === undefined ? [] : [[alias, condition]]
  }),
])

export const LOOPS: ReadonlyMap<string, Loop> = new Map<string, Loop>([
  ['for', argument => argument.split(' ').filter(Boolean)],
  ['for-glob', glob],
  ['for-times', count],
  ['for-readline', linesOf],
])

function not(condition: Condition): Condition {
  return (argument, context) => {
    const { isTrue, item } = condition(argument, context)
    return { isTrue: !isTrue, item }
  }
}

/** Yields the numbers from 1 up to the argument, as atoi(3) reads it. */
function* count(argument: string): Generator<string> {
  const last = Number.parseInt(argument, 10)
  for (let i = 1; i <= last; i++) yield String(i)
}

function linesOf(file: string): string[] {
  const lines = readText(file).split('\n')
  if (lines.at(-1) === '') lines.pop()
  return lines.map(line => line.replace(/\r+$/, ''))
}

function isReadable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK)
    return true
  } catch {
    return false
  }
}
