/** Distinguished names from text (RFC 4514 §2), for operators who name a CA. */

import { TAG } from './der.ts'
import { encodeDer } from './der-writer.ts'
import { ATTRIBUTE_SHORT_NAMES } from './oids.ts'

interface Attribute {
  shortName: string
  value: string
}

/** Upper bounds in characters (RFC 5280 §A.1); other types have none. */
const MAX_CHARACTERS: Readonly<Record<string, number>> = { CN: 64, O: 64, OU: 64, L: 128, ST: 128, UID: 256 }

const OID_BY_SHORT_NAME = new Map([...ATTRIBUTE_SHORT_NAMES].map(([oid, shortName]) => [shortName, oid]))

/**
 * DER of a Name from text that begins with the last RDN (`CN=Root CA,O=Example,C=DE`).
 * A backslash escapes a character; each RDN has one attribute, with a short name as type.
 * @throws RangeError in one sentence
 */
export function encodeNameText(text: string): Buffer {
  const attributes = splitUnescaped(text).map(readAttribute).reverse()
  if (attributes.length === 0) throw new RangeError('the name is empty')
  return encodeDer((writer) =>
    writer.sequence(() => {
      for (const { shortName, value } of attributes) {
        writer.constructed(TAG.set, () =>
          writer.sequence(() => {
            writer.oid(OID_BY_SHORT_NAME.get(shortName)!)
            writer.primitive(stringTagOf(shortName), Buffer.from(value, 'utf8'))
          }),
        )
      }
    }),
  )
}

/** RFC 5280 §A.1 and RFC 4519 §2.4 fix two types; for the others §4.1.2.4 prefers UTF8String. */
function stringTagOf(shortName: string): number {
  if (shortName === 'C') return TAG.printableString
  return shortName === 'DC' ? TAG.ia5String : TAG.utf8String
}

function readAttribute(part: string): Attribute {
  const [, type = '', written = ''] = /^\s*([A-Za-z]+)\s*=\s*(.*?)\s*$/s.exec(part) ?? []
  const shortName = type.toUpperCase()
  if (!OID_BY_SHORT_NAME.has(shortName)) {
    const known = [...OID_BY_SHORT_NAME.keys()].join(', ')
    throw new RangeError(`"${part.trim()}" is no attribute of a name; write TYPE=value with one of ${known}`)
  }
  const value = written.replace(/\\(.)/gs, '$1')
  const longest = MAX_CHARACTERS[shortName] ?? Number.POSITIVE_INFINITY
  if (value === '' || [...value].length > longest) {
    throw new RangeError(`the ${shortName} of a name has 1 to ${longest} characters`)
  }
  if (shortName === 'C' && !/^[A-Z]{2}$/.test(value))
    throw new RangeError('the C of a name is a country code such as DE')
  // biome-ignore lint/suspicious/noControlCharactersInRegex: IA5String is ASCII, control characters included
  if (shortName === 'DC' && !/^[\x00-\x7f]+$/.test(value)) throw new RangeError('the DC of a name is ASCII')
  return { shortName, value }
}

function splitUnescaped(text: string): string[] {
  return text.match(/(?:\\.|[^,\\])+/gs) ?? []
}
