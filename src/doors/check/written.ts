import { resolve } from 'node:path'
import {
  OPTION_TABLE,
  type OptionSpec,
  type Options,
  propertyName,
} from '../../formats/config/option-table.js'
import { parseControlSocket } from '../../formats/control/option.js'
import { type Address, parseAddress } from '../../formats/protocol/address.js'
import { parseDashboard } from '../net/dashboard-address.js'
import { parsePush } from '../net/stats-push.js'

/** Something that a configuration creates, or writes to. */
export interface Written {
  /** The name of the option. */
  readonly name: string
  /** The index of the value in a list. */
  readonly index: number
  readonly kind: NonNullable<OptionSpec['writes']>
  /** Absolute; undefined where there is no file: TCP, and abstract sockets. */
  readonly path?: string
  /** The address of a socket. */
  readonly address?: Address
}

/**
 * Returns what a configuration creates, or writes to. Values with a mistake are left out, because that is reported elsewhere.
 *
 * @param home the directory after chdir
 */
export function writtenBy(options: Options, home: string): Written[] {
  const values: Readonly<Record<string, unknown>> = { ...options }
  return OPTION_TABLE.flatMap((spec: OptionSpec) => {
    const { name, writes: kind } = spec
    if (kind === undefined) return []
    return [values[propertyName(spec)]].flat().flatMap((value, index) => {
      const target = typeof value === 'string' ? targetOf(name, kind, value) : undefined
      if (target === undefined) return []
      const { path, address } = target
      const base = name === 'safe-pidfile' ? home : '.' // only this one is written after chdir
      return {
        ...{ name, index, kind },
        ...(path === undefined ? {} : { path: resolve(base, path) }),
        ...(address === undefined ? {} : { address }),
      }
    })
  })
}

function targetOf(
  name: string,
  kind: Written['kind'],
  value: string,
): { readonly path?: string; readonly address?: Address } | undefined {
  try {
    if (name === 'stats-push') {
      const target = parsePush(value)
      return target.kind === 'file' ? { path: target.path } : undefined
    }
    if (kind !== 'socket') return { path: value }
    if (name === 'spooler-control') {
      const path = parseControlSocket(value)?.path
      return path === undefined ? undefined : { path, address: { kind: 'unix', path } }
    }
    const address = parseAddress(name === 'spooler-dashboard' ? parseDashboard(value).address : value)
    return address.kind === 'unix' ? { address, path: address.path } : { address }
  } catch {
    return undefined
  }
}
