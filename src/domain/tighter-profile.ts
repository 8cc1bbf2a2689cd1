/** Which of two CSR profiles refuses more, member by member (src/domain/csr-profile.ts says what each means). Pure. */

import { isDeepStrictEqual } from 'node:util'
import { domain } from './csr-profile.ts'

type Data = Readonly<Record<string, unknown>>

interface Tighter {
  data: Data
  /** It refuses more than the first does. */
  isChanged: boolean
  /** It is the second one: nothing that this allows is refused. False where members have no order. */
  isWhole: boolean
}

const listed = (one: string[], other: string[]) => other.filter((value) => one.includes(value))
const both = (one: boolean, other: boolean) => one && other

function sizes(one: Record<string, number>, other: Record<string, number>) {
  const types = Object.entries(other).filter(([type]) => type in one)
  return Object.fromEntries(types.map(([type, size]) => [type, Math.max(size, one[type] ?? 0)]))
}

const bases = (one: string[], other: string[]) =>
  other.filter((base) => one.some((known) => domain(known) === domain(base)))

/** Compares two values that refuse something. Regular expressions have no order. */
const TIGHTER: { readonly [member: string]: ((one: never, other: never) => unknown) | undefined } = {
  authorized_keys: sizes,
  authorized_signature_algorithms: listed,
  authorized_key_usages: listed,
  authorized_extended_key_usages: listed,
  common_name_minimum: Math.max,
  common_name_maximum: Math.min,
  san_minimum: Math.max,
  san_maximum: Math.min,
  san_types: listed,
  wildcard_in_common_name: both,
  wildcard_in_san: both,
  max_subdomain_depth: Math.min,
  depth_base_domains: bases,
  reuse_key: both,
  renewal_window_days: Math.min,
}

const DEPTH = ['max_subdomain_depth', 'depth_base_domains'] as const

/** Without the members that refuse nothing. */
function effective(data: Data): Data {
  const hasDepth = DEPTH.every((name) => (data[name] ?? undefined) !== undefined)
  const isRule = ([name, value]: [string, unknown]) => {
    if (value === null || value === true) return false
    if (name.endsWith('_minimum') || name === 'renewal_window_days') return Number(value) > 0
    if (name.endsWith('_maximum')) return Number(value) >= 0
    return hasDepth || !DEPTH.some((one) => one === name)
  }
  return Object.fromEntries(Object.entries(data).filter(isRule))
}

export function tighterProfile(now: Data, wanted: Data): Tighter {
  const [one, other] = [effective(now), effective(wanted)]
  const isRecorded = ([name, value]: [string, unknown]) =>
    !(name in one) || TIGHTER[name] !== undefined || isDeepStrictEqual(one[name], value)
  const tightened = Object.entries(other).map(([name, value]) => {
    const rule = TIGHTER[name]
    return [name, name in one && rule ? rule(one[name] as never, value as never) : value]
  })
  const data: Data = { ...one, ...Object.fromEntries(tightened) }
  return {
    data,
    isChanged: !isDeepStrictEqual(data, one),
    isWhole: isDeepStrictEqual(data, other) && Object.entries(other).every(isRecorded),
  }
}
