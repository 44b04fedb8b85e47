/**
 * Standard Schema 1, as far as it is used here. zod, valibot, ArkType and others implement it. It is written out, because its
 * package has nothing but these types.
 */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

/** The arguments that a schema takes. `SchemaOutput`: the arguments that the schema makes of them. */
export type SchemaInput<Schema extends StandardSchema> = Arguments<Types<Schema>['input']>
export type SchemaOutput<Schema extends StandardSchema> = Arguments<Types<Schema>['output']>

type Types<Schema extends StandardSchema> = NonNullable<Schema['~standard']['types']>
type Arguments<Type> = Type extends readonly unknown[] ? Type : never

type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] }

interface SchemaIssue {
  readonly message: string
  readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined
}

/** Returns the issues as text for people: `args[0]: Invalid email`. */
export function issuesText(issues: readonly SchemaIssue[]): string {
  return issues
    .map(({ message, path = [] }) => {
      const [first, ...rest] = path.map(part => (typeof part === 'object' ? part.key : part))
      const place = first === undefined ? 'args' : `args[${String(first)}]`
      return `${place}${rest.map(key => `.${String(key)}`).join('')}: ${message}`
    })
    .join('; ')
}

export function isStandardSchema(value: unknown): value is StandardSchema {
  const isHolder = (typeof value === 'object' && value !== null) || typeof value === 'function'
  if (!isHolder || !('~standard' in value)) return false
  const standard = value['~standard']
  return (
    typeof standard === 'object' &&
    standard !== null &&
    'validate' in standard &&
    typeof standard.validate === 'function'
  )
}
