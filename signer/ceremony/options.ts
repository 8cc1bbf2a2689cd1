/** The command lines of `keygen`, `sign-request` and `sign-crl`: meaning of each option, and permitted combinations. */

import { randomBytes } from 'node:crypto'
import { CRL_REASONS } from '../../src/shared/pki/crl-lint.ts'
import {
  type NameConstraints,
  NO_SUBTREES,
  parseNetwork,
  type Subtrees,
} from '../../src/shared/pki/name-constraints.ts'
import type { KeyConfig } from '../config.ts'
import { readSecret, type SecretSource } from '../keys/secret.ts'
import { DOMAIN } from '../subtrees.ts'
import { CEREMONY_FILES, type CeremonyPlan } from './keygen.ts'
import type { KeyShape } from './new-key.ts'
import type { CrlPlan, Revoked } from './sign-crl.ts'
import type { RootPlan, SigningPlan } from './sign-request.ts'

interface NameOptions {
  'permit-dns': readonly string[]
  'permit-ip': readonly string[]
  'exclude-dns': readonly string[]
  'exclude-ip': readonly string[]
}

/** @returns undefined where nothing is limited. @throws Error in one sentence */
function readConstraints(options: NameOptions): NameConstraints | undefined {
  const permitted = readSubtrees('permit', options['permit-dns'], options['permit-ip'])
  const excluded = readSubtrees('exclude', options['exclude-dns'], options['exclude-ip'])
  return permitted === NO_SUBTREES && excluded === NO_SUBTREES ? undefined : { permitted, excluded }
}

function readSubtrees(option: string, dns: readonly string[], ip: readonly string[]): Subtrees {
  if (dns.length + ip.length === 0) return NO_SUBTREES
  const wrong = dns.find((name) => !DOMAIN.test(name))
  if (wrong !== undefined)
    throw new Error(`--${option}-dns ${wrong}: must be a lower-case domain without a leading dot or *`)
  const networks = ip.map((text) => {
    const network = parseNetwork(text)
    if (network) return network
    throw new Error(`--${option}-ip ${text}: must be a network such as 10.0.0.0/8 or 2001:db8::/32`)
  })
  const listed = <T>(all: readonly T[]) => (all.length > 0 ? all : undefined)
  return { ...NO_SUBTREES, dns: listed(dns), ip: listed(networks) }
}

/** Location of a key, as on the command line. */
interface KeyPlaceOptions {
  library: string | undefined
  token: string | undefined
  slot: string | undefined
  label: string | undefined
  id: string | undefined
  'pin-file': string | undefined
  'pin-env': string | undefined
  'passphrase-file': string | undefined
  'passphrase-env': string | undefined
  'passphrase-prompt': boolean
}

interface KeygenOptions extends KeyPlaceOptions {
  type: string
  hash: string
  out: string
  subject: string | undefined
  'root-days': string | undefined
  'path-length': string | undefined
}

interface RootKeyOptions extends KeyPlaceOptions {
  key: string | undefined
  hash: string
  out: string
  root: string | undefined
  days: string | undefined
}

interface SignCrlOptions extends RootKeyOptions {
  number: string | undefined
  previous: string | undefined
  revoke: readonly string[]
}

interface SignRequestOptions extends RootKeyOptions, NameOptions {
  'crl-url': readonly string[]
  'issuer-url': readonly string[]
  'path-length': string
}

const TOKEN_OPTIONS = ['token', 'slot', 'label', 'id', 'pin-file', 'pin-env'] as const
const FILE_OPTIONS = ['passphrase-file', 'passphrase-env', 'passphrase-prompt'] as const
const RSA_BITS = [2048, 3072, 4096, 8192]
const MAX_ROOT_DAYS = 36_525
const MAX_PATH_LENGTH = 127
/** Wait for one signature of a token without other users. */
const SESSION_WAIT_SECONDS = 30

/**
 * Reads the PIN or passphrase last, after all other checks.
 * @throws Error in one sentence
 */
export async function readPlan(options: KeygenOptions, program: string): Promise<CeremonyPlan> {
  const { subject, out } = options
  if (!subject) throw new Error('give the name of the CA: --subject "CN=Example Root CA,O=Example,C=DE"')
  const hash = readHash(options.hash)
  const wanted = {
    out,
    program,
    subject,
    hash,
    shape: readShape(options.type),
    rootDays: readWhole('root-days', options['root-days'], 1, MAX_ROOT_DAYS),
    pathLength: readWhole('path-length', options['path-length'], 0, MAX_PATH_LENGTH),
  }
  return { ...wanted, ...(options.library ? await tokenPlace(options.library, options) : await filePlace(options)) }
}

/** `signRequest` reads the PIN or passphrase later. @throws Error in one sentence */
export function readSigningPlan(request: string, options: SignRequestOptions, program: string): SigningPlan {
  return {
    ...readRootPlan(options, program, 'say how long the certificate is valid: --days 1825'),
    request,
    pathLength: readWhole('path-length', options['path-length'], 0, MAX_PATH_LENGTH) ?? 0,
    constraints: readConstraints(options),
    crlUrls: readUrls('crl-url', options['crl-url']),
    caIssuersUrls: readUrls('issuer-url', options['issuer-url']),
  }
}

/** `signCrl` reads the PIN or passphrase later. @throws Error in one sentence */
export function readCrlPlan(options: SignCrlOptions, program: string): CrlPlan {
  const plan = readRootPlan(options, program, 'say when the next list comes: --days 365')
  const number = readWhole('number', options.number, 1, Number.MAX_SAFE_INTEGER)
  return {
    ...plan,
    number: number === undefined ? undefined : BigInt(number),
    previous: options.previous,
    revoked: options.revoke.map(readRevoked),
  }
}

function readRootPlan(options: RootKeyOptions, program: string, sayDays: string): RootPlan {
  const { root, out, library } = options
  if (!root) throw new Error('give the certificate of the root: --root root.pem')
  const days = readWhole('days', options.days, 1, MAX_ROOT_DAYS)
  if (days === undefined) throw new Error(sayDays)
  const key = library ? tokenKey(library, options) : fileKey(options)
  return { root, key, days, hash: readHash(options.hash), out, program }
}

/** CRLReason that a complete list may have (RFC 5280 §5.3.1). */
const REASONS = [0, 1, 2, 3, 4, 5, 9]

/** `FILE`, `SERIAL`, or either with `=REASON` behind it. */
function readRevoked(text: string): Revoked {
  const [which = '', name = 'unspecified', ...rest] = text.split('=')
  const reason = REASONS.find((one) => CRL_REASONS[one] === name)
  if (which !== '' && reason !== undefined && rest.length === 0) return { which, reason }
  throw new Error(
    `--revoke ${text}: must be a certificate or a serial number, perhaps with a reason behind it: issuer.pem=${REASONS.map((one) => CRL_REASONS[one]).join(' or ')}`,
  )
}

function readUrls(option: string, urls: readonly string[]): readonly string[] {
  const wrong = urls.find((url) => !URL.canParse(url) || !/^http:\/\/[\x21-\x7e]+$/.test(url))
  // RFC 5280 §8: fetching over TLS may need the certificate that is asked for.
  if (wrong !== undefined) throw new Error(`--${option} ${wrong}: must be an http:// URL`)
  return urls
}

function tokenKey(library: string, options: RootKeyOptions): KeyConfig {
  refuse(options, FILE_OPTIONS, 'is for a key in a file; this one is in a token (--library)')
  if (options.key) throw new Error('set only one of --key, --library')
  const slot = readWhole('slot', options.slot, 0, Number.MAX_SAFE_INTEGER)
  const { token, label, id } = options
  if (!token && slot === undefined) throw new Error('say which token: --token LABEL or --slot NUMBER')
  if (!label && !id) throw new Error('say which key: --label LABEL or --id HEX')
  const { file: pin_file, env: pin_env, prompt: pin_prompt } = pinSource(options)
  const pkcs11 = { library, token, slot, label, id, pin_file, pin_env, pin_prompt }
  return { pkcs11: { ...pkcs11, login: true, sessions: 1, session_wait: SESSION_WAIT_SECONDS } }
}

function fileKey(options: RootKeyOptions): KeyConfig {
  refuse(options, TOKEN_OPTIONS, 'is for a key in a token, which needs --library as well')
  if (!options.key) throw new Error('say where the key of the root is: --key FILE, or --library for a token')
  const { file, env, prompt } = passphraseSource(options)
  return { file: options.key, passphrase_file: file, passphrase_env: env, passphrase_prompt: prompt }
}

function readHash(hash: string): CeremonyPlan['hash'] {
  if (hash === 'sha256' || hash === 'sha384' || hash === 'sha512') return hash
  throw new Error('--hash is sha256, sha384 or sha512')
}

type PlaceAndSecret = Pick<CeremonyPlan, 'place' | 'secret'>

async function tokenPlace(library: string, options: KeygenOptions): Promise<PlaceAndSecret> {
  refuse(options, FILE_OPTIONS, 'is for a key in a file; this one is in a token (--library)')
  const slot = readWhole('slot', options.slot, 0, Number.MAX_SAFE_INTEGER)
  if (!options.token && slot === undefined) throw new Error('say which token: --token LABEL or --slot NUMBER')
  if (!options.label) throw new Error('give the key a label: --label issuing-2026')
  if (options.id && !/^([0-9A-Fa-f]{2})+$/.test(options.id)) throw new Error('--id is hexadecimal bytes such as 01af')
  const secret = pinSource(options)
  const pin = await readSecret(secret, `PIN of token ${options.token || `in slot ${slot}`}`)
  const token = {
    library,
    token: { label: options.token, slot },
    label: options.label,
    id: options.id || randomBytes(8).toString('hex'),
    pin: pin!,
  }
  return { place: { token }, secret }
}

function pinSource({ 'pin-file': file, 'pin-env': env }: KeyPlaceOptions): SecretSource {
  if (file && env) throw new Error('set only one of --pin-file, --pin-env')
  return file ? { file } : env ? { env } : { prompt: true }
}

function passphraseSource(options: KeyPlaceOptions): SecretSource {
  const given = FILE_OPTIONS.filter((name) => options[name])
  if (given.length > 1) throw new Error(`set only one of ${given.map((name) => `--${name}`).join(', ')}`)
  const { 'passphrase-file': file, 'passphrase-env': env, 'passphrase-prompt': prompt } = options
  return { file, env, prompt }
}

async function filePlace(options: KeygenOptions): Promise<PlaceAndSecret> {
  refuse(options, TOKEN_OPTIONS, 'is for a key in a token, which needs --library as well')
  const source = passphraseSource(options)
  const what = `passphrase for ${CEREMONY_FILES.key}`
  const passphrase = await readSecret(source, what)
  if (passphrase === '') throw new Error('the passphrase is empty')
  // The prompt shows nothing, and a mistyped passphrase would make the key useless.
  if (source.prompt && passphrase !== (await readSecret(source, `${what}, again`))) {
    throw new Error('the two passphrases differ')
  }
  return { place: { passphrase }, secret: source }
}

function refuse(options: KeyPlaceOptions, names: readonly (keyof KeyPlaceOptions)[], why: string): void {
  const given = names.find((name) => options[name])
  if (given) throw new Error(`--${given} ${why}`)
}

function readShape(type: string): KeyShape {
  if (type === 'P-256' || type === 'P-384' || type === 'P-521' || type === 'Ed25519') return { type, bits: 0 }
  const bits = Number(/^RSA-(\d+)$/.exec(type)?.[1])
  if (RSA_BITS.includes(bits)) return { type: 'RSA', bits }
  throw new Error(`--type is one of P-256, P-384, P-521, Ed25519, ${RSA_BITS.map((size) => `RSA-${size}`).join(', ')}`)
}

function readWhole(name: string, text: string | undefined, least: number, most: number): number | undefined {
  if (text === undefined) return undefined
  const value = Number(text)
  if (/^\d+$/.test(text) && value >= least && value <= most) return value
  throw new Error(`--${name} is a whole number from ${least} to ${most}`)
}
