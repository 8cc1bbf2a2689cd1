/**
 * Settings that many jobs share cross to the threads once, at their start; a
 * job names them by their place.
 *
 * Copying a configuration with each job would cost as much as the rest of the hand-over. Only the
 * very same object is recognised, at any depth but not inside lists.
 */

interface Place {
  sharedPlace: number
}

export type Places = ReadonlyMap<unknown, number>

export function placesOf(settings: readonly object[]): Places {
  return new Map(settings.map((one, place) => [one, place]))
}

/** A copy of a job with places where shared settings stood. */
export function withoutShared<T extends object>(job: T, places: Places): T {
  const copy: T = { ...job }
  for (const member in copy) {
    const value: unknown = copy[member]
    if (typeof value !== 'object' || value === null) continue
    const place = places.get(value)
    const short =
      place !== undefined
        ? ({ sharedPlace: place } satisfies Place)
        : isList(value)
          ? value
          : withoutShared(value, places)
    copy[member] = short as T[typeof member]
  }
  return copy
}

/** Puts the settings back where they stood; in place, as the job is a copy already. */
export function withShared<T extends object>(job: T, settings: readonly object[]): T {
  for (const member in job) {
    const value: unknown = job[member]
    if (typeof value !== 'object' || value === null || isList(value)) continue
    const full = 'sharedPlace' in value ? settings[(value as Place).sharedPlace] : withShared(value, settings)
    job[member] = full as T[typeof member]
  }
  return job
}

const isList = (value: object) => Array.isArray(value)
