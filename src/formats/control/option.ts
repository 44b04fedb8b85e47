import { dirname, resolve } from 'node:path'
import { messageOf, SpooldError } from '../../base/errors.js'
import { statsOf } from '../../system/file-stats.js'
import { ROLES, type Role } from './protocol.js'

/** A control socket besides those in the spools: a value of `spooler-control`. */
export interface ControlSocketOption {
  readonly path: string
  readonly role: Role
  readonly mode: number
}

/** Turns off the sockets in the spools. */
const OFF = 'off'
/** The default modes. Operators are the daemon's own user, and root; viewers are also the members of its group. */
const MODES: Readonly<Record<Role, number>> = { operator: 0o600, viewer: 0o660 }
const EXPECTED = `expected PATH[,role=${ROLES.join('|')}][,mode=0660] or ${OFF}`

/** Parses a value of `spooler-control`. @returns null for `off` @throws SpooldError ADDRESS_INVALID */
export function parseControlSocket(text: string): ControlSocketOption | null {
  if (text === OFF) return null
  const [path = '', ...rest] = text.split(',')
  const given = new Map(
    rest.map(each => [each.slice(0, each.indexOf('=')), each.slice(each.indexOf('=') + 1)]),
  )
  const { role = 'operator', mode, ...others } = Object.fromEntries(given)
  const known = ROLES.find(each => each === role)
  const isMode = mode === undefined || /^[0-7]{3,4}$/.test(mode)
  if (!path.includes('/') || known === undefined || !isMode || Object.keys(others).length > 0)
    throw new SpooldError('ADDRESS_INVALID', `${EXPECTED}, with a / in PATH, got ${JSON.stringify(text)}`)
  return { path, role: known, mode: mode === undefined ? MODES[known] : Number.parseInt(mode, 8) }
}

/**
 * Reports what is wrong with the values of `spooler-control`, before anything listens.
 *
 * @param report called with the index of the value
 */
export function checkControl(values: readonly string[], report: (i: number, message: string) => void): void {
  for (const [i, text] of values.entries())
    try {
      const socket = parseControlSocket(text)
      const directory = dirname(resolve(socket?.path ?? '.'))
      if (statsOf(directory)?.isDirectory() !== true)
        report(i, `${text} cannot be made, because there is no directory ${directory}`)
    } catch (error) {
      report(i, messageOf(error))
    }
}
