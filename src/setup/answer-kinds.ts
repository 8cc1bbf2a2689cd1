/** The kinds of answers that a set-up takes. A text typed at a prompt and a value of an answers file are read alike. */

import { isIP } from 'node:net'
import { domainToASCII } from 'node:url'
import { z } from 'zod'
import { isDomain, isHttpUrl } from '../config/field.ts'
import { isMailAddress, MAIL_ADDRESS } from '../shared/lib/bounded.ts'
import { encodeNameText } from '../shared/pki/name.ts'
import { parseNetwork } from '../shared/pki/name-constraints.ts'

/** An operator types fewer; a list of a page is a mistake. */
const MOST = 64
const MAX_TEXT = 1024

export interface Kind<T> {
  schema: z.ZodType<T>
  /** The answer before the question was asked; undefined where the question has to name one. */
  empty?: T
  /** The words of a choice, each with what it means. */
  choices?: Readonly<Record<string, string>>
}

const oneLine = (expects: string, test: (value: string) => boolean) =>
  z
    .string({ error: `must be ${expects}` })
    .trim()
    .max(MAX_TEXT)
    .refine((value) => !/[\p{Cc}]/u.test(value) && test(value), { error: `must be ${expects}` })

const text = (expects: string, test: (value: string) => boolean = () => true): Kind<string> => ({
  schema: oneLine(expects, test),
  empty: '',
})

const textOrEmpty = (expects: string, test?: (value: string) => boolean): Kind<string> =>
  text(`${expects}, or empty`, (value) => value === '' || !test || test(value))

const listOf = (
  expects: string,
  test: (value: string) => boolean,
  written = (word: unknown) => word,
): Kind<string[]> => ({
  schema: z.preprocess(
    (value) => {
      const words = typeof value === 'string' ? value.split(/[\s,]+/).filter((word) => word !== '') : (value ?? [])
      return Array.isArray(words) ? words.map(written) : words
    },
    z.array(oneLine(`a list of ${expects}`, test), { error: `must be a list of ${expects}` }).max(MOST),
  ),
  empty: [],
})

/** The answer is one of these words. */
export const oneOf = <const T extends readonly [string, ...string[]]>(...words: T): Kind<T[number]> => ({
  schema: z.preprocess(
    (value) => (typeof value === 'string' ? value.trim() : value),
    z.enum(words, { error: `must be one of ${words.join(', ')}` }),
  ),
})

/** The answer is one of these words, which are explained when the question is asked. */
export const choice = <const T extends Readonly<Record<string, string>>>(choices: T): Kind<keyof T & string> => {
  const words = Object.keys(choices) as [keyof T & string, ...(keyof T & string)[]]
  return { ...oneOf(...words), choices }
}

export const yesOrNo: Kind<boolean> = {
  schema: z.preprocess(
    (value) => ({ yes: true, y: true, no: false, n: false })[String(value).trim().toLowerCase()] ?? value,
    z.boolean({ error: 'must be yes or no' }),
  ),
  empty: false,
}

export const port: Kind<number> = {
  schema: z.preprocess(
    (value) => (typeof value === 'string' && /^\s*\d{1,5}\s*$/.test(value) ? Number(value) : value),
    z.int({ error: 'must be a port, 1 to 65535' }).min(1).max(65_535),
  ),
}

export const secret: Kind<string> = {
  schema: z.string({ error: 'must be a text; put a number in quotes' }).max(MAX_TEXT),
  empty: '',
}

const isFile = (value: string) => value.startsWith('/')
const isHost = (value: string) => isIP(value) > 0 || isDomain(value)
const isDnsName = (value: string) => isDomain(value) && !value.startsWith('*')

/** DNS and certificates have names in ASCII: büro.example is xn--bro-hoa.example. */
const asciiName = (value: unknown) => (typeof value === 'string' ? domainToASCII(value) || value : value)
const asciiUrl = (value: unknown) =>
  String(value)
    .trim()
    .replace(/\/$/, '')
    .replace(/^(https?:\/\/)([^/\\:?#@]+)/i, (_, scheme: string, host: string) => `${scheme}${asciiName(host)}`)

/** Bits behind the prefix are a mistake; other parts of the service refuse such a network, too. */
const isWholeNetwork = (value: string) => {
  const network = parseNetwork(value)
  return network?.address.every((octet, index) => (octet & ~network.mask[index]!) === 0) === true
}

export const file = text('a whole path, such as /root/ca.p12', isFile)
export const fileOrEmpty = textOrEmpty('a whole path', isFile)
export const hostOrEmpty = textOrEmpty('a host', isHost)
export const hosts = listOf('host names or addresses', isHost)
export const dnsNameOrEmpty = textOrEmpty('a name such as acme.corp.example', isDnsName)
export const domains = listOf('domains such as corp.example', isDnsName, asciiName)
export const networks = listOf('networks such as 10.0.0.0/8', isWholeNetwork)
export const ipAddress = text('an IP address', (value) => isIP(value) > 0)
export const mailAddress = text(MAIL_ADDRESS, isMailAddress)
export const userNameOrEmpty = textOrEmpty('a user name')
export const databaseName = text('letters, digits and _', (value) => /^[a-z_][a-z0-9_]{0,62}$/.test(value))
export const tokenLabel = text('the label of the token', (value) => value !== '')
export const keyLabel = text('a label for the key', (value) => /^[\w.-]{1,64}$/.test(value))

/** A host with an optional port is all that an ACME client needs; a path would be one more thing to get wrong. */
export const publicUrl: Kind<string> = {
  schema: z.preprocess(
    asciiUrl,
    oneLine(
      'https:// and a host, such as https://acme.corp.example',
      (value) => isHttpUrl(value) && /^https:\/\/[^/\\?#@]+$/.test(value),
    ),
  ),
  empty: '',
}

export const crlUrlOrNone: Kind<string> = {
  schema: z.preprocess(
    asciiUrl,
    oneLine(
      'http:// and a host, or none',
      (value) => value === 'none' || (isHttpUrl(value) && /^http:\/\/[^/\\?#@]+$/.test(value)),
    ),
  ),
  empty: 'none',
}

export const subject: Kind<string> = {
  schema: oneLine('a name such as CN=Example Issuing CA 1,O=Example', () => true).superRefine((value, context) => {
    try {
      encodeNameText(value)
    } catch (error) {
      context.addIssue(`must be a name such as CN=Example Issuing CA 1,O=Example: ${(error as Error).message}`)
    }
  }),
  empty: '',
}
