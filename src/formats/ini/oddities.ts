import { describe } from '../../base/errors.js'
import { isComment, strip } from './lines.js'
import type { Magic, NumberedLine } from './magic.js'

const BYTE_ORDER_MARK = '\ufeff'

/**
 * Warns about lines that are not read the way they look; uWSGI accepts them all silently. Only the wanted section, and lines
 * outside any section, are examined.
 */
export function* findOddities(text: string, section: string, magic: Magic): Generator<NumberedLine> {
  let current = ''
  let isOutsideTold = false
  for (const [i, line] of text.split('\n').entries()) {
    const number = i + 1
    const stripped = strip(line)
    if (stripped === '' || isComment(stripped)) continue
    if (number === 1 && stripped.startsWith(BYTE_ORDER_MARK)) {
      isOutsideTold = true // what follows is outside a section because of the mark
      yield {
        number,
        text: 'the file begins with a byte-order mark, which hides its first line; save it without',
      }
    } else if (stripped.startsWith('[')) {
      current = stripped.slice(1, -1)
      if (!stripped.endsWith(']'))
        yield {
          number,
          text: `expected [NAME] alone on its line, got ${describe(stripped)}, which names the section ${describe(current)}`,
        }
    } else if (current === '') {
      if (isOutsideTold) continue // one line is enough to see what kind of file it is
      isOutsideTold = true
      yield {
        number,
        text: `expected a section such as [${section}] first: ${describe(stripped)} is not read`,
      }
    } else if (current === section) {
      yield* oddPercents(stripped, number, magic)
    }
  }
}

function* oddPercents(stripped: string, number: number, magic: Magic): Generator<NumberedLine> {
  for (const [, letter = ''] of stripped.matchAll(/%(.?)/gsu)) {
    if (letter === '')
      yield {
        number,
        text: '% at the end of the line joins the next line to it; write %% for a percent sign',
      }
    else if (!magic.has(letter))
      yield { number, text: `%${letter} stands for nothing; write %%${letter} to keep it as it is` }
  }
}
