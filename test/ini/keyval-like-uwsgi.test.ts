import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { parseKeyvals } from '#src/base/keyval.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { UWSGIS, type Uwsgi } from '../helpers/uwsgi.js'

/** Returns the name that a real uWSGI reads in the list, from the line about the cache that it makes. */
function nameOfUwsgi({ command }: Uwsgi, list: string): string | undefined {
  const { stdout, stderr } = spawnSync(command, ['--no-server', '--cache2', list], {
    encoding: 'utf8',
    timeout: 5000,
    killSignal: 'SIGKILL',
  })
  return /^\*{3} Cache "(.*)" initialized/m.exec(`${stdout}${stderr}`)?.[1]
}

const ourName = (list: string) =>
  parseKeyvals(list).findLast(({ key, value }) => key === 'name' && value !== undefined)?.value

/** The list begins with all that uWSGI needs, so that it prints a name whatever follows. */
const NEEDED = 'items=1,name=before,'

for (const uwsgi of UWSGIS)
  describe(`a list of keys and values, as ${uwsgi.title} reads it`, { skip: skipUnless(uwsgi.needs) }, () => {
    for (const rest of [
      'name=a\\,b',
      'name=a,,',
      'name=a=b',
      'name=a\\=b',
      'name',
      ' name=a',
      'name= a ',
      'na\\me=a',
      'na\\\\me=a',
      'na\\\\xme=a',
      'name=a\\\\',
      'name=a\\\\\\,b',
      'name\\\\==b',
      'name=a\\',
      'name=a,name=b',
      'other=1,name=a',
    ])
      it(rest, () => assert.equal(ourName(NEEDED + rest), nameOfUwsgi(uwsgi, NEEDED + rest)))

    it('with any characters', () => {
      const piece = fc.constantFrom('name', 'name=', '\\', ',', '=', 'a', ' ', 'n')
      const list = fc.array(piece, { maxLength: 12 }).map(pieces => pieces.join(''))
      fc.assert(
        fc.property(list, rest => assert.equal(ourName(NEEDED + rest), nameOfUwsgi(uwsgi, NEEDED + rest))),
        { numRuns: isLong ? 1000 : 60 },
      )
    })
  })
