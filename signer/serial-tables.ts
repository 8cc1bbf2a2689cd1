/**
 * Serial numbers in memory, for millions of them: which one CRL has had so far, and which revocations this process has
 * recorded, so that a CRL adds only its new ones.
 *
 * A table has open addressing. There are many, because growing a small one is fast.
 */

import { randomInt } from 'node:crypto'
import type { RevocationEntry } from './records/record.ts'

const PARTS = 256
const FIRST_SLOTS = 8

/** A pair of zeros is free. */
interface SetPart {
  slots: Uint32Array
  count: number
}

/** False duplicates have a chance of 10⁻⁶ in a list of six million. Random seeds make the next attempt independent. */
export class SerialSet {
  readonly #seeds = [randomInt(2 ** 32), randomInt(2 ** 32)] as const
  readonly #parts: SetPart[] = Array.from({ length: PARTS }, () => ({
    slots: new Uint32Array(2 * FIRST_SLOTS),
    count: 0,
  }))

  /** @returns false when it was there already. */
  add(serialNumber: Buffer): boolean {
    const high = digest(serialNumber, this.#seeds[0])
    // The set bit avoids a pair of zeros.
    const low = digest(serialNumber, this.#seeds[1]) | 1
    const part = this.#parts[high % PARTS]!
    if (4 * part.count >= part.slots.length) growSet(part)
    if (!insert(part.slots, high, low >>> 0)) return false
    part.count += 1
    return true
  }
}

function insert(slots: Uint32Array, high: number, low: number): boolean {
  const mask = slots.length / 2 - 1
  for (let slot = (low >>> 1) & mask; ; slot = (slot + 1) & mask) {
    if (slots[2 * slot + 1] === 0) {
      slots[2 * slot] = high
      slots[2 * slot + 1] = low
      return true
    }
    if (slots[2 * slot] === high && slots[2 * slot + 1] === low) return false
  }
}

function growSet(part: SetPart): void {
  const larger = new Uint32Array(2 * part.slots.length)
  for (let at = 0; at < part.slots.length; at += 2)
    if (part.slots[at + 1] !== 0) insert(larger, part.slots[at]!, part.slots[at + 1]!)
  part.slots = larger
}

/** The steps of MurmurHash3, for one octet at a time. */
function digest(octets: Buffer, seed: number): number {
  let hash = seed
  for (let at = 0; at < octets.length; at++) {
    hash = Math.imul(hash ^ octets[at]!, 0x85ebca6b)
    hash ^= hash >>> 13
  }
  hash = Math.imul(hash ^ octets.length, 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

/** Whether a record holds this serial number with this reason. */
export type IsRecorded = (serial: Buffer, reason: number) => boolean

/** One for the length of the serial number, one for the reason, 20 for the number (RFC 5280 §4.1.2.2). */
const SLOT_BYTES = 22

/** Length 0 is free. */
interface Part {
  slots: Buffer
  count: number
}

/** 30 to 60 MB for a million. */
class RevokedSerials {
  readonly #parts: Part[] = Array.from({ length: PARTS }, () => ({
    slots: Buffer.alloc(FIRST_SLOTS * SLOT_BYTES),
    count: 0,
  }))
  #count = 0

  get count(): number {
    return this.#count
  }

  has(serial: Buffer, reason: number): boolean {
    const hash = digest(serial, reason)
    const { slots } = this.#parts[hash % PARTS]!
    return slots[slotOf(slots, hash, serial, reason)] !== 0
  }

  add(serial: Buffer, reason: number): void {
    const hash = digest(serial, reason)
    const part = this.#parts[hash % PARTS]!
    const at = slotOf(part.slots, hash, serial, reason)
    if (part.slots[at] !== 0) return
    part.slots[at] = serial.length
    part.slots[at + 1] = reason
    part.slots.set(serial, at + 2)
    part.count += 1
    this.#count += 1
    if (4 * part.count * SLOT_BYTES >= 3 * part.slots.length) grow(part)
  }
}

/** Where it stands, or the free slot where it belongs. */
function slotOf(slots: Buffer, hash: number, serial: Buffer, reason: number): number {
  const mask = slots.length / SLOT_BYTES - 1
  for (let slot = (hash >>> 8) & mask; ; slot = (slot + 1) & mask) {
    const at = slot * SLOT_BYTES
    if (slots[at] === 0 || isAt(slots, at, serial, reason)) return at
  }
}

function isAt(slots: Buffer, at: number, serial: Buffer, reason: number): boolean {
  if (slots[at] !== serial.length || slots[at + 1] !== reason) return false
  for (let i = 0; i < serial.length; i++) if (slots[at + 2 + i] !== serial[i]) return false
  return true
}

function grow(part: Part): void {
  const { slots } = part
  part.slots = Buffer.alloc(2 * slots.length)
  for (let at = 0; at < slots.length; at += SLOT_BYTES) {
    if (slots[at] === 0) continue
    const serial = slots.subarray(at + 2, at + 2 + slots[at]!)
    const reason = slots[at + 1]!
    const to = slotOf(part.slots, digest(serial, reason), serial, reason)
    slots.copy(part.slots, to, at, at + SLOT_BYTES)
  }
}

/** It is exact: a false "recorded" would lose a revocation. A start knows none, and then the first list is recorded whole. */
export class RecordedRevocations {
  readonly #most: number
  /** By `issuerKeyOf`. */
  readonly #byIssuer = new Map<string, RevokedSerials>()

  /** @param most for an issuer; with more it begins anew, and the next list is recorded whole */
  constructor(most: number) {
    this.#most = most
  }

  /** For the entries of one list. */
  of(issuerKey: string): IsRecorded {
    const serials = this.#of(issuerKey)
    return (serial, reason) => serials.has(serial, reason)
  }

  /** Call it when the record is on disk. */
  add(issuerKey: string, entries: readonly RevocationEntry[]): void {
    if (this.#of(issuerKey).count >= this.#most) this.#byIssuer.delete(issuerKey)
    const serials = this.#of(issuerKey)
    for (const [serial, , reason] of entries) serials.add(Buffer.from(serial, 'hex'), reason)
  }

  #of(issuerKey: string): RevokedSerials {
    const known = this.#byIssuer.get(issuerKey) ?? new RevokedSerials()
    this.#byIssuer.set(issuerKey, known)
    return known
  }
}
