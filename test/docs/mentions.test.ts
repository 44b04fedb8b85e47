import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { COMMANDS } from '#src/doors/cli/command-table.js'
import { findOption } from '#src/formats/config/option-table.js'
import { uwsgiArity } from '#src/formats/config/uwsgi-names.js'
import { LOGIC_KEYS } from '#src/formats/ini/logic.js'
import { allPages, type Page } from '../helpers/markdown.js'

/** The flags of the commands, which are not options of the daemon. */
const FLAGS = new Set([
  'help',
  'version',
  ...COMMANDS.flatMap(({ flags }) => flags.flatMap(([text]) => longNames(text))),
])

/** The flags of the frameworks' commands that start a daemon, of the frameworks, and Spinach's names for them. */
const FRAMEWORKS = new Set(
  'app debug settings fail-level queue processes concurrency reload no-reload threads stop-when-queue-empty'.split(
    ' ',
  ),
)

function longNames(text: string): string[] {
  return [...text.matchAll(/--([a-z0-9-]+)/g)].map(([, name = '']) => name)
}

/** Matches a word that begins as only options do. */
const OPTION = /^(spooler|touch|worker|procname|log|master|safe|auto|add|set|die|if|for)-[a-z0-9-]*[a-z0-9]$/

/** Events of applications look like options, too. */
const EVENTS = ['worker-started', 'worker-terminated']

describe('every option that the docs name exists', () => {
  for (const page of allPages())
    it(page.name, () => {
      assert.deepEqual(
        namedOptions(page).filter(name => !exists(name)),
        [],
      )
    })
})

function exists(name: string): boolean {
  return findOption(name) !== undefined || LOGIC_KEYS.includes(name) || uwsgiArity(name) !== undefined
}

function namedOptions(page: Page): string[] {
  const inis = page.blocks.filter(({ language, marks }) => language === 'ini' && !isUnit(marks))
  const keys = inis.flatMap(({ text }) => [...text.matchAll(/^([a-z0-9-]+) *=/gm)].map(([, key = '']) => key))
  const commands = [...page.spans, ...page.blocks.flatMap(({ text }) => text.split('\n'))].filter(line =>
    /\bspoold |^--/.test(line),
  )
  const flags = commands.flatMap(longNames)
  const spans = page.spans
    .map(span => span.split(/ *= */)[0] ?? '')
    .filter(word => OPTION.test(word) && !EVENTS.includes(word))
  return [...keys, ...flags.filter(flag => !FLAGS.has(flag) && !FRAMEWORKS.has(flag)), ...spans]
}

/** A systemd unit looks like an ini, but has other keys. */
function isUnit(marks: readonly string[]): boolean {
  return marks.some(mark => mark.includes('/systemd/'))
}
