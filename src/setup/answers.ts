/** What a set-up has to know. Text typed at a prompt and values of an answers file are read alike. */

import { isIP } from 'node:net'
import { domainToASCII } from 'node:url'
import { z } from 'zod'
import { isDomain, isHttpUrl } from '../config/field.ts'
import { isMailAddress, MAIL_ADDRESS } from '../shared/lib/bounded.ts'
import { encodeNameText } from '../shared/pki/name.ts'
import { parseNetwork } from '../shared/pki/name-constraints.ts'

/** More than an operator types; a list of a page is a mistake. */
const MOST = 64
const MAX_TEXT = 1024

const oneLine = (expects: string, test: (value: string) => boolean) =>
  z
    .string({ error: `must be ${expects}` })
    .trim()
    .max(MAX_TEXT)
    .refine((value) => !/[\p{Cc}]/u.test(value) && test(value), { error: `must be ${expects}` })

const listOf = (expects: string, test: (value: string) => boolean, written = (word: unknown) => word) =>
  z.preprocess(
    (value) => {
      const words = typeof value === 'string' ? value.split(/[\s,]+/).filter((word) => word !== '') : (value ?? [])
      return Array.isArray(words) ? words.map(written) : words
    },
    z.array(oneLine(`a list of ${expects}`, test), { error: `must be a list of ${expects}` }).max(MOST),
  )

const yesOrNo = z.preprocess(
  (value) => ({ yes: true, y: true, no: false, n: false })[String(value).trim().toLowerCase()] ?? value,
  z.boolean({ error: 'must be yes or no' }),
)

const choice = <const T extends readonly [string, ...string[]]>(...values: T) =>
  z.preprocess(
    (value) => (typeof value === 'string' ? value.trim() : value),
    z.enum(values, { error: `must be one of ${values.join(', ')}` }),
  )

const port = z.preprocess(
  (value) => (typeof value === 'string' && /^\s*\d{1,5}\s*$/.test(value) ? Number(value) : value),
  z.int({ error: 'must be a port, 1 to 65535' }).min(1).max(65_535),
)

const databaseName = oneLine('letters, digits and _', (value) => /^[a-z_][a-z0-9_]{0,62}$/.test(value))
const isFile = (value: string) => value.startsWith('/')
const file = oneLine('a whole path, such as /root/ca.p12', isFile)
const orEmpty = (expects: string, test: (value: string) => boolean) =>
  oneLine(`${expects}, or empty`, (value) => value === '' || test(value))
const isHost = (value: string) => isIP(value) > 0 || isDomain(value)
const secret = z.string({ error: 'must be a text; put a number in quotes' }).max(MAX_TEXT)
const subject = oneLine('a name such as CN=Example Issuing CA 1,O=Example', () => true).superRefine(
  (value, context) => {
    try {
      encodeNameText(value)
    } catch (error) {
      context.addIssue(`must be a name such as CN=Example Issuing CA 1,O=Example: ${(error as Error).message}`)
    }
  },
)
/** A host with an optional port is all that an ACME client needs; a path would be one more thing to get wrong. */
const isPublicUrl = (value: string) => isHttpUrl(value) && /^https:\/\/[^/\\?#@]+$/.test(value)
const isCrlPlace = (value: string) => isHttpUrl(value) && /^http:\/\/[^/\\?#@]+$/.test(value)
const isDnsName = (value: string) => isDomain(value) && !value.startsWith('*')

/** As DNS has it, and certificates: büro.example is xn--bro-hoa.example. */
const asciiName = (value: unknown) => (typeof value === 'string' ? domainToASCII(value) || value : value)
const asciiUrl = (value: unknown) =>
  String(value)
    .trim()
    .replace(/\/$/, '')
    .replace(/^(https?:\/\/)([^/\\:?#@]+)/i, (_, scheme: string, host: string) => `${scheme}${asciiName(host)}`)

/** No bit is set behind the prefix; elsewhere such a network is refused, too. */
const isWholeNetwork = (value: string) => {
  const network = parseNetwork(value)
  return network?.address.every((octet, index) => (octet & ~network.mask[index]!) === 0) === true
}

/** An answer's default counts where its question was not asked. */
export const ANSWERS = z.strictObject({
  url: z
    .preprocess(asciiUrl, oneLine('https:// and a host, such as https://acme.corp.example', isPublicUrl))
    .default(''),
  tls: choice('proxy', 'own', 'files').default('proxy'),
  proxy: choice('nginx', 'haproxy', 'other').default('other'),
  proxy_certificate: yesOrNo.default(false),
  tls_certificate: file.default(''),
  tls_key: file.default(''),
  port: port.default(8443),
  domains: listOf('domains such as corp.example', isDnsName, asciiName).default([]),
  networks: listOf('networks such as 10.0.0.0/8', isWholeNetwork).default([]),
  database: choice('local', 'remote', 'trial').default('local'),
  database_hosts: listOf('host names or addresses', isHost).default([]),
  database_port: port.default(5432),
  database_name: databaseName.default('chancery'),
  database_user: databaseName.default('chancery'),
  database_password: secret.default(''),
  database_ca: orEmpty('a whole path', isFile).default(''),
  issuer: choice('new', 'request', 'import').default('new'),
  key: choice('file', 'token').default('file'),
  key_type: choice('P-256', 'P-384', 'P-521', 'RSA-3072', 'RSA-4096').default('P-256'),
  token: choice('softhsm', 'usb', 'network').default('softhsm'),
  token_library: file.default(''),
  token_label: oneLine('the label of the token', (value) => value !== '').default(''),
  token_address: oneLine('an IP address', (value) => isIP(value) > 0).default(''),
  token_pin: secret.default(''),
  token_key: oneLine('a label for the key', (value) => /^[\w.-]{1,64}$/.test(value)).default(''),
  root_name: subject.default(''),
  root_passphrase: secret.default(''),
  issuer_name: subject.default(''),
  name_constraints: yesOrNo.default(false),
  import_from: choice('pkcs12', 'pem', 'step-ca').default('pem'),
  import_path: file.default(''),
  import_key: file.default(''),
  import_passphrase: secret.default(''),
  issuer_certificate: orEmpty('a whole path', isFile).default(''),
  issuer_root: orEmpty('a whole path', isFile).default(''),
  accounts: choice('eab', 'open').default('open'),
  caa_identity: orEmpty('a name such as acme.corp.example', isDnsName).default(''),
  crl_url: z
    .preprocess(
      asciiUrl,
      oneLine('http:// and a host, or none', (value) => value === 'none' || isCrlPlace(value)),
    )
    .default('none'),
  mail_host: orEmpty('a host', isHost).default(''),
  mail_port: port.default(587),
  mail_from: oneLine(MAIL_ADDRESS, isMailAddress).default(''),
  mail_user: orEmpty('a user name', () => true).default(''),
  mail_password: secret.default(''),
  console: yesOrNo.default(false),
  admin_email: oneLine(MAIL_ADDRESS, isMailAddress).default(''),
  admin_port: port.default(8444),
})

export type Answers = z.output<typeof ANSWERS>
export type Key = keyof Answers

export const NOT_ASKED: Answers = ANSWERS.parse({})

/** @returns the value, or what it must be instead */
export function readAnswer<K extends Key>(key: K, given: unknown): { value: Answers[K] } | { wrong: string } {
  const read = ANSWERS.shape[key].safeParse(given)
  if (read.success) return { value: read.data as Answers[K] }
  return { wrong: read.error.issues[0]?.message ?? 'is not usable' }
}

/** Whether the names that may be issued include this one. */
export const covers = (domains: readonly string[], name: string): boolean =>
  domains.some((domain) => name === domain || name.endsWith(`.${domain}`))
