/**
 * Decides which addresses validation may connect to. A list of blocked networks is matched against
 * the exact address of each connection.
 *
 * An IPv6 address can embed an IPv4 address (mapped, NAT64, 6to4, …), and a host or gateway may
 * translate it. So every embedded IPv4 address is matched too, even where translation is uncertain.
 * A wrong refusal costs one configuration line; a wrong permission is a hole.
 */

import { isIPv4, isIPv6 } from 'node:net'

export interface AddressPolicy {
  /** Also true for text that is not an IP address. */
  isBlocked(address: string): boolean
}

interface Network {
  /** 4 or 16 bytes. */
  bytes: Uint8Array
  prefixLength: number
}

/** `::ffff:0:0/96`. */
const MAPPED = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]

/**
 * Blocked under any configuration: "this network", multicast and limited broadcast. On Linux
 * 0.0.0.0 connects to loopback, which would bypass a block of 127.0.0.0/8.
 */
const NEVER_A_TARGET = ['0.0.0.0/8', '224.0.0.0/4', '255.255.255.255/32', '::/128', 'ff00::/8'].map(requireNetwork)

/** @throws RangeError naming an entry that is neither a CIDR block nor a single address. */
export function createAddressPolicy(blockedNetworks: readonly string[]): AddressPolicy {
  const networks = [...NEVER_A_TARGET, ...blockedNetworks.map(requireNetwork)]
  return {
    isBlocked(text) {
      const address = parseAddress(text)
      if (!address) return true
      return spellings(address).some((bytes) => networks.some((network) => contains(network, bytes)))
    },
  }
}

function requireNetwork(text: string): Network {
  const network = parseNetwork(text)
  if (!network) throw new RangeError(`not a network in CIDR notation: ${text}`)
  return network
}

/**
 * Parses `a.b.c.d/n`, `v6/n` or a single address. A mapped IPv6 network (`::ffff:a.b.c.d/96+n`)
 * becomes its IPv4 network.
 */
export function parseNetwork(text: string): Network | undefined {
  const [addressText = '', prefixText, ...rest] = text.split('/')
  const bytes = parseAddress(addressText)
  if (!bytes || rest.length > 0) return undefined

  const width = bytes.length * 8
  if (prefixText !== undefined && !/^(0|[1-9]\d{0,2})$/.test(prefixText)) return undefined
  const prefixLength = prefixText === undefined ? width : Number(prefixText)
  if (prefixLength > width) return undefined

  if (prefixLength >= 96 && startsWith(bytes, MAPPED)) {
    return { bytes: bytes.subarray(12), prefixLength: prefixLength - 96 }
  }
  return { bytes, prefixLength }
}

/** Returns 4 bytes for IPv4, 16 for IPv6. Returns undefined for all else, including scoped addresses (`%eth0`). */
export function parseAddress(text: string): Uint8Array | undefined {
  if (isIPv4(text)) return Uint8Array.from(text.split('.'), Number)
  if (!isIPv6(text) || text.includes('%')) return undefined

  const [head = '', tail] = text.split('::')
  const front = groupBytes(head)
  if (tail === undefined) return Uint8Array.from(front)
  const back = groupBytes(tail)
  return Uint8Array.from([...front, ...new Array<number>(16 - front.length - back.length).fill(0), ...back])
}

function groupBytes(groups: string): number[] {
  if (groups === '') return []
  return groups.split(':').flatMap((group) => {
    if (group.includes('.')) return group.split('.').map(Number)
    const value = Number.parseInt(group, 16)
    return [value >> 8, value & 0xff]
  })
}

/** Prefix of an IPv6 form that embeds an IPv4 address, and the positions of its four bytes. */
const EMBEDDED: readonly { prefix: readonly number[]; at: readonly number[]; inverted?: true }[] = [
  { prefix: MAPPED, at: [12, 13, 14, 15] }, // RFC 4291 §2.5.5.2
  { prefix: [0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0], at: [12, 13, 14, 15] }, // IPv4-translated, RFC 2765 §2.1
  { prefix: [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0], at: [12, 13, 14, 15] }, // NAT64, RFC 6052 §2.1
  { prefix: [0, 0x64, 0xff, 0x9b, 0, 1], at: [12, 13, 14, 15] }, // local-use NAT64, RFC 8215, as a /96
  { prefix: [0, 0x64, 0xff, 0x9b, 0, 1], at: [6, 7, 9, 10] }, // the same as a /48, RFC 6052 §2.2
  { prefix: [0x20, 0x02], at: [2, 3, 4, 5] }, // 6to4, RFC 3056 §2
  { prefix: [0x20, 0x01, 0, 0], at: [12, 13, 14, 15], inverted: true }, // Teredo, RFC 4380 §4
]

/** The address itself and every IPv4 address it may embed. */
function spellings(address: Uint8Array): Uint8Array[] {
  if (address.length === 4) return [address]
  const embedded = EMBEDDED.filter(({ prefix }) => startsWith(address, prefix)).map(({ at, inverted }) =>
    Uint8Array.from(at, (index) => address[index]! ^ (inverted ? 0xff : 0)),
  )
  return isCompatible(address) ? [address, address.subarray(12)] : [address, ...embedded]
}

/**
 * Recognises IPv4-compatible addresses (RFC 4291 §2.5.5.1, deprecated). The table cannot express
 * them, because `::1` has the same prefix.
 */
function isCompatible(address: Uint8Array): boolean {
  return address[12] !== 0 && address.subarray(0, 12).every((byte) => byte === 0)
}

function startsWith(bytes: Uint8Array, prefix: readonly number[]): boolean {
  return bytes.length >= prefix.length && prefix.every((byte, index) => bytes[index] === byte)
}

function contains({ bytes, prefixLength }: Network, address: Uint8Array): boolean {
  if (bytes.length !== address.length) return false
  const wholeBytes = prefixLength >> 3
  for (let index = 0; index < wholeBytes; index++) if (bytes[index] !== address[index]) return false
  const mask = (0xff00 >> (prefixLength & 7)) & 0xff
  return mask === 0 || ((bytes[wholeBytes]! ^ address[wholeBytes]!) & mask) === 0
}
