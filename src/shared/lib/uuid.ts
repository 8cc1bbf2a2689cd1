/** UUIDs (RFC 9562): version 7 keys, which sort by creation time. */

import { randomUUID } from 'node:crypto'

const LATEST_MS = 2 ** 48 - 1

/**
 * A version 7 UUID: 48 bits of Unix milliseconds, then 74 random bits.
 * @param nowMs Unix time in milliseconds. A time before 1970 or after 10889 is that bound: former servers have such.
 */
export function uuidv7(nowMs: number): string {
  const time = Math.min(Math.max(0, Math.floor(nowMs)), LATEST_MS)
    .toString(16)
    .padStart(12, '0')
  // The digits behind the version of a version 4 UUID, whose random bits Node.js draws for many at once.
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}

/** Creation time of a version 7 UUID, to the millisecond. */
export function uuidTime(uuid: string): Date {
  return new Date(Number.parseInt(uuid.slice(0, 8) + uuid.slice(9, 13), 16))
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** Lower case only: an id has one spelling. */
export function isUuid(text: string): boolean {
  return UUID.test(text)
}

/** @param uuid a UUID of any version */
export const isVersion7 = (uuid: string): boolean => uuid[14] === '7'

/** Below every version 7 UUID made at this Unix time in milliseconds or later, above every earlier one. */
export function lowestUuidv7(ms: number): string {
  const time = Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-000000000000`
}
