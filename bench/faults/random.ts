/** Chance from a seed: the minimal standard generator of Park and Miller, whose products stay below 2^53. */

export interface Chance {
  /** Below `end`, which is at least 1. */
  whole(end: number): number
  between(from: number, to: number): number
  shuffled<T>(items: readonly T[]): T[]
}

const MULTIPLIER = 48_271
const MODULUS = 2_147_483_647

/** @param seed From 1; the same seed gives the same values in the same order. */
export function chanceFrom(seed: number): Chance {
  let state = seed % MODULUS || 1
  const next = () => {
    state = (state * MULTIPLIER) % MODULUS
    return state / MODULUS
  }
  // Small seeds begin with small values.
  for (let i = 0; i < 8; i++) next()
  const whole = (end: number) => Math.floor(next() * end)
  return {
    whole,
    between: (from, to) => from + next() * (to - from),
    shuffled(items) {
      const left = [...items]
      return items.map(() => left.splice(whole(left.length), 1)[0]!)
    },
  }
}
