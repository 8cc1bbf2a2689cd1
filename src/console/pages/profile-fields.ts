/** Input of the page of a CSR profile: its fields from the schema, its JSON, and a CSR from text or a file. Pure. */

export interface FieldSchema {
  type?: string | readonly string[]
  format?: string
  description?: string
  enum?: readonly unknown[]
  minimum?: number
  items?: FieldSchema
  anyOf?: readonly FieldSchema[]
  propertyNames?: FieldSchema
  additionalProperties?: FieldSchema | boolean
  properties?: Readonly<Record<string, FieldSchema>>
}

type FieldKind = 'flag' | 'number' | 'pattern' | 'choices' | 'texts' | 'sizes' | 'json'

export interface ProfileField {
  name: string
  label: string
  help: string
  kind: FieldKind
  /** The values of `choices` and `sizes`. */
  options: readonly string[]
  minimum: number
}

/** The labels of fields. A field without an entry shows its name. */
const WORDS: Readonly<Record<string, readonly [label: string, help: string]>> = {
  authorized_keys: ['Key types', 'With the least size in bits; 0 asks for no size.'],
  authorized_signature_algorithms: ['Signature algorithms of the request', ''],
  authorized_key_usages: ['Key usages', 'That a request may ask for.'],
  authorized_extended_key_usages: ['Extended key usages', 'Such as serverAuth, or an OID; one a line.'],
  common_name_minimum: ['Common names, at least', ''],
  common_name_maximum: ['Common names, at most', '−1 is no limit.'],
  common_name_regex: ['Every common name matches', 'A regular expression (RE2), for the whole name.'],
  san_minimum: ['Alternative names, at least', ''],
  san_maximum: ['Alternative names, at most', '−1 is no limit.'],
  san_regex: ['Every alternative name matches', 'A regular expression (RE2), for the whole name.'],
  san_types: ['Types of alternative names', ''],
  subject_regex: ['The subject matches', 'As text, such as CN=a,O=b (RFC 4514).'],
  wildcard_in_common_name: ['Wildcard in a common name', ''],
  wildcard_in_san: ['Wildcard in an alternative name', ''],
  max_subdomain_depth: ['Labels below a base domain, at most', 'Counts with the base domains only.'],
  depth_base_domains: ['Base domains', 'One a line. Every name must lie below one of them.'],
  reuse_key: ['A key may be certified again', ''],
  renewal_window_days: ['Renewal only so many days before the end', '0 or −1 is no limit.'],
}

export function fieldsOf(schema: FieldSchema): ProfileField[] {
  return Object.entries(schema.properties ?? {}).map(([name, field]) => {
    const [label = name, help = ''] = WORDS[name] ?? [name, field.description ?? '']
    return { name, label, help, kind: kindOf(field), options: optionsOf(field), minimum: field.minimum ?? 0 }
  })
}

function kindOf(field: FieldSchema): FieldKind {
  if (field.type === 'boolean') return 'flag'
  if (field.type === 'integer') return 'number'
  if (field.type === 'string') return 'pattern'
  if (field.type === 'array') return field.items?.enum ? 'choices' : 'texts'
  if (field.type === 'object' && field.propertyNames) return 'sizes'
  return 'json'
}

function optionsOf({ items, propertyNames }: FieldSchema): string[] {
  const names = items?.enum ?? propertyNames?.enum ?? propertyNames?.anyOf?.find((option) => option.enum)?.enum ?? []
  return names.map(String)
}

export type ProfileData = Readonly<Record<string, unknown>>

/** An undefined value takes the field out: it asks for nothing. */
export function withField(data: ProfileData, name: string, value: unknown): ProfileData {
  const { [name]: _, ...rest } = data
  return value === undefined ? rest : { ...rest, [name]: value }
}

/** Undefined for an empty text; the text itself where it is no number, so that the service names the fault. */
export function numberOf(text: string): unknown {
  const trimmed = text.trim().replace('−', '-')
  if (trimmed === '') return undefined
  return /^-?\d+$/.test(trimmed) ? Number(trimmed) : trimmed
}

/** The data to send, without lines that are still empty. */
export const withoutEmptyLines = (data: ProfileData): ProfileData =>
  Object.fromEntries(
    Object.entries(data).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.filter((one) => one !== '') : value,
    ]),
  )

type ReadJson = { ok: true; data: ProfileData } | { ok: false; message: string }

/** Reads the JSON beside the form. */
export function readJson(text: string): ReadJson {
  try {
    const data: unknown = JSON.parse(text)
    const isObject = typeof data === 'object' && data !== null && !Array.isArray(data)
    return isObject ? { ok: true, data: data as ProfileData } : { ok: false, message: 'must be an object: { … }' }
  } catch (error) {
    return { ok: false, message: error instanceof Error ? error.message : String(error) }
  }
}

/** The limit of the Admin API, in characters of base64. */
const MOST_CHARACTERS = 65_536
const PEM = /-----BEGIN (?:NEW )?CERTIFICATE REQUEST-----([^-]+)-----END (?:NEW )?CERTIFICATE REQUEST-----/
const OTHER_PEM = /-----BEGIN ([^-]+)-----/

export type ReadCsr = { ok: true; csr: string } | { ok: false; message: string }

export function readCsrText(text: string): ReadCsr {
  const pem = PEM.exec(text)?.[1]
  const other = OTHER_PEM.exec(text)?.[1]
  if (pem === undefined && other !== undefined)
    return {
      ok: false,
      message: other.includes('KEY') ? PRIVATE_KEY : `This is a ${other.toLowerCase()}, not a request.`,
    }
  const csr = (pem ?? text).replaceAll(/\s/g, '')
  if (csr === '') return { ok: false, message: 'There is no request in it.' }
  if (!/^[A-Za-z0-9+/_-]+={0,2}$/.test(csr)) return { ok: false, message: 'It is neither PEM nor base64.' }
  return bounded(csr)
}

const PRIVATE_KEY = 'This is a key. Keep it to yourself; drop the certification request instead.'

/** PEM or DER. */
export function readCsrFile(bytes: Uint8Array): ReadCsr {
  const isDer = bytes[0] === 0x30
  if (!isDer) return readCsrText(new TextDecoder().decode(bytes))
  // A call with all octets as arguments would overflow the stack.
  const pieces = Array.from({ length: Math.ceil(bytes.length / 8_192) }, (_, index) =>
    String.fromCharCode(...bytes.subarray(index * 8_192, (index + 1) * 8_192)),
  )
  return bounded(btoa(pieces.join('')))
}

function bounded(csr: string): ReadCsr {
  return csr.length <= MOST_CHARACTERS ? { ok: true, csr } : { ok: false, message: 'It is longer than any request.' }
}
