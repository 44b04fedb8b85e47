import { SpooldError, toError } from '../base/errors.js'
import { main } from './program.js'

/** A sentence for what people can mend, with the code under which docs/errors.md explains it; else a stack. */
function complain(thrown: unknown): void {
  process.stderr.write(`spoold: ${textOf(toError(thrown))}\n`)
}

function textOf(error: Error): string {
  if (error instanceof SpooldError) return `[${error.code}] ${error.message}`
  return error.stack ?? error.message
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
