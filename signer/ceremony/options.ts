/** The command line of `keygen`: what each option means, and what of it goes together. */

import { randomBytes } from 'node:crypto'
import { readSecret } from '../keys/secret.ts'
import { CEREMONY_FILES, type CeremonyPlan } from './keygen.ts'
import type { KeyShape } from './new-key.ts'

/** As they stand on the command line. */
export interface KeygenOptions {
  type: string
  hash: string
  out: string
  subject?: string
  'root-days'?: string
  'path-length'?: string
  library?: string
  token?: string
  slot?: string
  label?: string
  id?: string
  'pin-file'?: string
  'pin-env'?: string
  'passphrase-file'?: string
  'passphrase-env'?: string
  'passphrase-prompt'?: boolean
}

/** Options that take a text: without this list `--id 01` would arrive as the number 1. */
export const KEYGEN_TEXTS = [
  ...['type', 'hash', 'subject', 'out', 'root-days', 'path-length', 'library', 'token', 'slot', 'label', 'id'],
  ...['pin-file', 'pin-env', 'passphrase-file', 'passphrase-env'],
]

const TOKEN_OPTIONS = ['token', 'slot', 'label', 'id', 'pin-file', 'pin-env'] as const
const FILE_OPTIONS = ['passphrase-file', 'passphrase-env', 'passphrase-prompt'] as const
const RSA_BITS = [2048, 3072, 4096, 8192]
const MAX_ROOT_DAYS = 36_525
const MAX_PATH_LENGTH = 127

/** Reads the PIN or the passphrase last, when nothing else can be wrong. @throws Error in one sentence */
export async function readPlan(options: KeygenOptions, program: string): Promise<CeremonyPlan> {
  const twice = Object.entries(options).find(([name, value]) => name !== '_' && Array.isArray(value))
  if (twice) throw new Error(`--${twice[0]} is given twice`)
  const { hash, subject, out } = options
  if (!subject) throw new Error('give the name of the CA: --subject "CN=Example Root CA,O=Example,C=DE"')
  if (hash !== 'sha256' && hash !== 'sha384' && hash !== 'sha512') throw new Error('--hash is sha256, sha384 or sha512')
  const wanted = {
    out,
    program,
    subject,
    hash: hash as CeremonyPlan['hash'],
    shape: readShape(options.type),
    rootDays: readWhole('root-days', options['root-days'], 1, MAX_ROOT_DAYS),
    pathLength: readWhole('path-length', options['path-length'], 0, MAX_PATH_LENGTH),
  }
  return { ...wanted, place: options.library ? await tokenPlace(options.library, options) : await filePlace(options) }
}

async function tokenPlace(library: string, options: KeygenOptions): Promise<CeremonyPlan['place']> {
  refuse(options, FILE_OPTIONS, 'is for a key in a file; this one is in a token (--library)')
  const slot = readWhole('slot', options.slot, 0, Number.MAX_SAFE_INTEGER)
  if (!options.token && slot === undefined) throw new Error('say which token: --token LABEL or --slot NUMBER')
  if (!options.label) throw new Error('give the key a label: --label issuing-2026')
  if (options.id && !/^([0-9A-Fa-f]{2})+$/.test(options.id)) throw new Error('--id is hexadecimal bytes such as 01af')
  const pin = await readSecret(pinSource(options), `PIN of token ${options.token || `in slot ${slot}`}`)
  return {
    token: {
      library,
      token: { label: options.token, slot },
      label: options.label,
      id: options.id || randomBytes(8).toString('hex'),
      pin: pin!,
    },
  }
}

function pinSource({ 'pin-file': file, 'pin-env': env }: KeygenOptions) {
  if (file && env) throw new Error('set only one of --pin-file, --pin-env')
  return file ? { file } : env ? { env } : { prompt: true }
}

async function filePlace(options: KeygenOptions): Promise<CeremonyPlan['place']> {
  refuse(options, TOKEN_OPTIONS, 'is for a key in a token, which needs --library as well')
  const given = FILE_OPTIONS.filter((name) => options[name])
  if (given.length > 1) throw new Error(`set only one of ${given.map((name) => `--${name}`).join(', ')}`)
  const source = {
    file: options['passphrase-file'],
    env: options['passphrase-env'],
    prompt: options['passphrase-prompt'],
  }
  const what = `passphrase for ${CEREMONY_FILES.key}`
  const passphrase = await readSecret(source, what)
  if (passphrase === '') throw new Error('the passphrase is empty')
  // Nobody sees what is typed, and a slip would make the key useless.
  if (source.prompt && passphrase !== (await readSecret(source, `${what}, again`))) {
    throw new Error('the two passphrases differ')
  }
  return { passphrase }
}

function refuse(options: KeygenOptions, names: readonly (keyof KeygenOptions)[], why: string): void {
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
