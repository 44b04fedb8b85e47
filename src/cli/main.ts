import { SpooldError, toError } from '../base/errors.js'
import { main } from './program.js'

/** A sentence for what people can mend, a stack for what only we can. */
function complain(thrown: unknown): void {
  const error = toError(thrown)
  const text = error instanceof SpooldError ? error.message : (error.stack ?? error.message)
  process.stderr.write(`spoold: ${text}\n`)
}

// `spoold ls DIR | head`: whoever reads has seen enough
process.stdout.on('error', () => process.exit(0))

main(process.argv.slice(2)).then(
  code => process.exit(code),
  error => {
    complain(error)
    process.exit(1)
  },
)
