import { describe } from 'node:test'
import {
  type Case,
  changesNoAnswer,
  dead,
  ends,
  filled,
  getsAll,
  held,
  jsonRows,
  keepsNoWorkUndone,
  MANY,
  ROWS,
  wordy,
} from '../helpers/output-readers.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** Commands that only print. */
const LOOKS: readonly Case[] = [
  { name: 'ls --json', on: filled, args: spool => ['ls', '--json', spool] },
  { name: 'rm --dry-run', on: filled, args: spool => ['rm', '--all', '--dry-run', spool], left: ROWS },
]

/** Commands whose exit code is their answer. */
const JUDGES: readonly Case[] = [
  { name: 'check', on: wordy, rows: MANY, args: ini => ['check', ini], code: 1, extra: 3 },
  { name: 'doctor', on: wordy, rows: MANY, args: ini => ['doctor', ini], code: 1 },
]

/** Commands that change something, and print what they did. */
const CHANGES: readonly Case[] = [
  { name: 'hold', on: filled, args: spool => ['hold', '--all', spool], left: ROWS },
  { name: 'release', on: held, args: spool => ['release', '--all', spool], left: ROWS },
  { name: 'kick --json', on: filled, args: spool => ['kick', '--all', '--json', spool], left: ROWS },
  { name: 'requeue', on: dead, args: spool => ['requeue', '--all', spool], left: ROWS },
  {
    name: 'move',
    on: filled,
    args: spool => ['move', '--all', '--to', spoolDirectory(), spool],
    left: 0,
  },
  { name: 'fsck --repair', on: dead, args: spool => ['fsck', '--repair', spool], extra: 1 },
  {
    name: 'enqueue --json',
    on: spoolDirectory,
    args: spool => ['enqueue', '--spooler', spool, '--json', '-'],
    input: jsonRows,
    rows: MANY,
    left: MANY,
  },
]

describe('a reader that sleeps', { concurrency: 4 }, () => {
  for (const each of [...LOOKS, ...JUDGES, ...CHANGES]) getsAll(each)
})

describe('a reader that leaves', { concurrency: 2 }, () => {
  for (const each of LOOKS) ends(each)
  for (const each of JUDGES) changesNoAnswer(each)
  for (const each of CHANGES) keepsNoWorkUndone(each)
})
