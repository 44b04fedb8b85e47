import { messageOf } from '../../base/errors.js'
import type { RedisAddress } from '../../formats/protocol/redis-address.js'

/** An error of a client. `lastNodeError` is what the last node of a cluster has said. */
type ClientError = Error & { readonly lastNodeError?: Error | null }

/** Matches what commands fail with because of an earlier error, which says why. */
export const HIDES = /^(Stream isn't writeable|Reached the max retries per request limit)/
const OF_SENTINELS = /^All sentinels are unreachable\..* Last error: /
const OF_OPENSSL = /^(?:[0-9A-F]+:)?error:[0-9A-F]{8}:[^:]*:[^:]*:([^:]+).*$/s
const UNSAID = /^Connection is closed\.?$/

/** Returns, for people, why there is no connection. @param error the last one that the client has told */
export function whyUnconnected({ isTls }: RedisAddress, error: ClientError | undefined): string {
  const cause = error?.lastNodeError ?? error
  const told = cause === undefined ? '' : messageOf(cause).replace(OF_OPENSSL, '$1')
  const said = told.replace(OF_SENTINELS, '')
  if (said === '' || UNSAID.test(said))
    return isTls ? 'nothing answers with TLS and a trusted certificate' : 'nothing answers without TLS'
  if (said.endsWith('ECONNRESET'))
    return `${said}, as of a port that wants ${isTls ? 'a certificate (?cert= and ?key=)' : 'TLS (rediss:)'}`
  return said === told ? said : `its sentinels: ${said}`
}
