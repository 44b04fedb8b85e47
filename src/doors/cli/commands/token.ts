import { closeSync, fstatSync, writeSync } from 'node:fs'
import { wrongArg } from '../../../admin/operate/args.js'
import { makeToken } from '../../../admin/operate/dashboard-tokens.js'
import { messageOf, SpooldError } from '../../../base/errors.js'
import { shellWord } from '../../../base/printable.js'
import { ROLES } from '../../../base/task/roles.js'
import { nameFault } from '../../../formats/protocol/named.js'
import { Opener } from '../../../system/opener.js'
import type { CommandContext } from '../context.js'

interface TokenOptions {
  readonly name: string
  readonly role: string
  readonly payload?: boolean
}

/** `spoold token FILE`: adds a token to the file of `spooler-dashboard-tokens`, and prints it. The file has only its hash. */
export async function token(
  [file = '']: readonly string[],
  { name, role, payload = false }: TokenOptions,
  { output }: CommandContext,
): Promise<number> {
  output.purpose = 'change'
  const known = ROLES.find(each => each === role)
  if (known === undefined) throw wrongArg('--role', ROLES.join(', '), role)
  const fault = nameFault(name)
  if (fault !== undefined) throw wrongArg('--name', fault, name)
  const made = makeToken({ name, role: known, mayReadPayload: payload })
  append(file, made.line)
  output.line(made.token)
  output.complain(`${file} has the hash of this token; the token itself is nowhere else`)
  return 0
}

/** @throws SpooldError SYSTEM_REFUSED */
function append(file: string, line: string): void {
  try {
    const fd = new Opener(null).append(file, 0o600, { setsAside: false })
    try {
      const { mode } = fstatSync(fd)
      if ((mode & 0o077) !== 0)
        throw new Error(`expected a file that nobody else can read; run chmod 600 ${shellWord(file)}`)
      writeSync(fd, line) // one short line is taken whole
    } finally {
      closeSync(fd)
    }
  } catch (error) {
    throw new SpooldError('SYSTEM_REFUSED', `${file}: ${messageOf(error)}`, { cause: error })
  }
}
