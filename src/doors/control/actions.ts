import { inspect } from 'node:util'
import { type FieldKind, hasFields } from '../../base/json-guard.js'
import { ControlError, type ControlRequest, type Role } from '../../formats/control/protocol.js'

/** What an action may do besides returning its result. */
interface Call {
  /** What the socket lets its clients do. */
  readonly role: Role
  /** Sends an event to the client. @returns false once the client has gone, or was dropped because it is too slow */
  send(event: unknown): boolean
  /** Resolves when the client has taken everything that was sent, or has gone. */
  whenTaken(): Promise<void>
  /** Resolves when the client has gone. */
  readonly whenGone: Promise<void>
}

/** One verb. The room that acts makes it; the daemon puts all verbs into one table. */
export interface Action {
  /** The least role that may use it. */
  readonly role: Role
  /** The arguments, each with its kind. A `?` after the name means that the argument may be missing. No others are accepted. */
  readonly args: Readonly<Record<string, FieldKind>>
  /** @param args checked against `args` above @returns what the client gets, plain JSON @throws Error for the client */
  run(args: never, call: Call): unknown
}

export type ActionTable = Readonly<Record<string, Action>>

interface Values {
  readonly text: string
  readonly count: number
  readonly flag: boolean
  readonly texts: readonly string[]
}

type Shape = Readonly<Record<string, keyof Values>>

/** The arguments of `run`, as `args` describes them. */
type ArgsOf<Args extends Shape> = {
  readonly [Name in keyof Args as Name extends `${string}?` ? never : Name]: Values[Args[Name]]
} & {
  readonly [Name in keyof Args as Name extends `${infer Bare}?` ? Bare : never]?: Values[Args[Name]]
}

export function actionFor<const Args extends Shape>(
  role: Role,
  args: Args,
  run: (args: ArgsOf<Args>, call: Call) => unknown,
): Action {
  return { role, args, run }
}

/** Returns the action of a request, with its arguments checked. @throws ControlError unknown-verb, forbidden, invalid-args */
export function findAction(actions: ActionTable, { verb, args }: ControlRequest, role: Role): Action {
  const action = Object.hasOwn(actions, verb) ? actions[verb] : undefined
  if (action === undefined)
    throw new ControlError(
      'unknown-verb',
      `expected one of ${Object.keys(actions).join(', ')}, got ${JSON.stringify(verb)}`,
    )
  if (role === 'viewer' && action.role !== 'viewer')
    throw new ControlError('forbidden', `${verb} is for operators, and this socket is for viewers`)
  checkArgs(verb, action, args)
  return action
}

function checkArgs(verb: string, action: Action, args: object): void {
  const shape = Object.entries(action.args)
  const isOptional = (name: string) => name.endsWith('?')
  const required = shape.filter(([name]) => !isOptional(name))
  const optional = shape
    .filter(([name]) => isOptional(name))
    .map(([name, kind]) => [name.slice(0, -1), kind] as const)
  const known = new Set([...required, ...optional].map(([name]) => name))
  const isRight =
    Object.keys(args).every(name => known.has(name)) &&
    hasFields(args, Object.fromEntries(required), Object.fromEntries(optional))
  if (isRight) return
  const expected = shape.map(([name, kind]) => `${name}: ${kind}`).join(', ')
  const got = inspect(args, { depth: 2, breakLength: Number.POSITIVE_INFINITY }).slice(0, 200)
  throw new ControlError('invalid-args', `${verb}: expected {${expected}}, got ${got}`)
}
