/** The command that repeats what a failed validation asked, for a shell. Pure. */

export interface Attempted {
  /** The last part of an ACME error type (RFC 8555 §6.7). */
  problem: string
  name: string
  challenge: string | undefined
  token: string | undefined
  /** To which the service connected. */
  port?: number | undefined
  /** The name of the DNS record that was looked up. */
  record?: string | undefined
}

/** A refused order may have any text for a name: only these reach a command, unquoted and never as an option. */
const NAME = /^[a-z0-9_](?:[a-z0-9._-]*[a-z0-9])?$/
const ADDRESS = /^(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7})$/
/** Base64url (RFC 8555 §8.3). */
const TOKEN = /^[A-Za-z0-9_-]{1,255}$/

/** @returns undefined where no command shows it */
export function commandFor({ name: asked, ...attempted }: Attempted): string | undefined {
  const name = asked.toLowerCase().replace(/^\*\./, '')
  const isAddress = ADDRESS.test(name)
  if (!isAddress && (!NAME.test(name) || name.length > 253)) return undefined
  if (attempted.problem === 'caa') return isAddress ? undefined : `dig CAA ${name}`
  if (attempted.problem === 'dns' && !isRecord(attempted.challenge)) return `dig ${name} A ${name} AAAA`
  return COMMANDS[attempted.challenge ?? '']?.(name, attempted)
}

const isRecord = (challenge: string | undefined) => challenge?.startsWith('dns-') === true

const COMMANDS: Readonly<Record<string, (name: string, attempted: Omit<Attempted, 'name'>) => string | undefined>> = {
  'http-01': (name, { token, port = 80 }) => {
    const path = token !== undefined && TOKEN.test(token) ? token : 'TOKEN'
    return `curl -v http://${hostOf(name)}${port === 80 ? '' : `:${port}`}/.well-known/acme-challenge/${path}`
  },
  'dns-01': (name, { record }) => digTxt(record, `_acme-challenge.${name}`),
  // The label before it is a hash of the account's URL, which only the evidence has.
  'dns-account-01': (_name, { record }) => digTxt(record),
  'dns-persist-01': (name, { record }) => digTxt(record, `_validation-persist.${name}`),
  'tls-alpn-01': (name, { port = 443 }) =>
    // An address is asked for by its reverse name (RFC 8738 §6).
    ADDRESS.test(name)
      ? undefined
      : `openssl s_client -alpn acme-tls/1 -servername ${name} -connect ${name}:${port} </dev/null`,
}

const hostOf = (name: string) => (name.includes(':') ? `[${name}]` : name)

function digTxt(record: string | undefined, usual?: string): string | undefined {
  const name = record !== undefined && NAME.test(record) ? record : usual
  return name === undefined ? undefined : `dig TXT ${name}`
}
