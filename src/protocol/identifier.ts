/** Identifiers and challenge types (RFC 8555 §7.1.3, §8; RFC 8738): the closed sets and their wire form. */

export const IDENTIFIER_TYPES = ['dns', 'ip'] as const
export type IdentifierType = (typeof IDENTIFIER_TYPES)[number]

/** As a client wrote it and an order shows it: a wildcard keeps its `*.`. Value is normalised. */
export interface Identifier {
  type: IdentifierType
  value: string
}
