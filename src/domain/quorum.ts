/**
 * When remote perspectives corroborate this service's validation (CA/Browser Forum Baseline
 * Requirements 3.2.2.9). Pure.
 *
 * This service, the primary perspective, makes the determination. The others can only veto it.
 */

export interface QuorumPolicy {
  /** How many may fail to corroborate; undefined takes the table of BR 3.2.2.9. */
  maxNonCorroborations: number | undefined
  /** Least number of distinct regions among those that corroborate. */
  minRegions: number
}

/** The vote of one perspective, as far as it is known. */
export interface Vote {
  /** Perspectives without a region count as one region together. */
  region: string | undefined
  vote: 'yes' | 'no' | 'pending'
}

/** `open`: it depends on pending votes. */
export type Quorum = 'met' | 'missed' | 'open'

/** BR 3.2.2.9, "Quorum Requirements". The table begins at two; one alone must corroborate. */
export function allowedNonCorroborations(perspectives: number): number {
  if (perspectives < 2) return 0
  return perspectives < 6 ? 1 : 2
}

/** How many perspectives must corroborate; at least one under any policy. */
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
