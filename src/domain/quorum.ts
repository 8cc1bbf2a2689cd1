/**
 * When remote perspectives corroborate what this service saw (CA/Browser Forum Baseline Requirements 3.2.2.9). Pure.
 *
 * The determination itself is made here, at the primary perspective; the others can only keep it from counting.
 */

export interface QuorumPolicy {
  /** How many may not corroborate; undefined is the table of BR 3.2.2.9. */
  maxNonCorroborations: number | undefined
  /** Distinct regions in which those that corroborate must stand. */
  minRegions: number
}

/** What one perspective says, as far as it is known. */
export interface Vote {
  /** Perspectives without one count as one region together. */
  region: string | undefined
  vote: 'yes' | 'no' | 'pending'
}

/** `open`: it depends on votes that are pending. */
export type Quorum = 'met' | 'missed' | 'open'

/** BR 3.2.2.9, "Quorum Requirements". The table begins at two; one alone must corroborate. */
export function allowedNonCorroborations(perspectives: number): number {
  if (perspectives < 2) return 0
  return perspectives < 6 ? 1 : 2
}

/** How many of so many must corroborate; at least one, whatever the policy. */
export function neededCorroborations(perspectives: number, { maxNonCorroborations }: QuorumPolicy): number {
  return Math.max(1, perspectives - (maxNonCorroborations ?? allowedNonCorroborations(perspectives)))
}

export function judgeQuorum(votes: readonly Vote[], policy: QuorumPolicy): Quorum {
  if (
    isEnough(
      votes.filter(({ vote }) => vote === 'yes'),
      votes.length,
      policy,
    )
  )
    return 'met'
  return isEnough(
    votes.filter(({ vote }) => vote !== 'no'),
    votes.length,
    policy,
  )
    ? 'open'
    : 'missed'
}

function isEnough(corroborating: readonly Vote[], perspectives: number, policy: QuorumPolicy): boolean {
  const regions = new Set(corroborating.map(({ region }) => region))
  return corroborating.length >= neededCorroborations(perspectives, policy) && regions.size >= policy.minRegions
}
