/** Whether issuers can be used at a time, in sentences. Pure. */

import type { Issuer } from './issuers.ts'

const DAY_MS = 86_400_000
/** As in the service's alarms (src/domain/alarms.ts). */
const WARNING_DAYS = 90

type Times = Pick<Issuer, 'id' | 'notBefore' | 'notAfter' | 'chainEndsAt'>

export interface TimeFindings {
  /** What cannot be used now. */
  errors: string[]
  warnings: string[]
}

const isUsable = ({ notBefore, notAfter }: Times, now: Date): boolean => notBefore <= now && now <= notAfter

/** An issuer that has run out still signs its CRLs. @throws Error when no issuer can issue now */
export function reportTimes(
  issuers: readonly Times[],
  now: Date,
  log: Record<'error' | 'warn', (sentence: string) => void>,
): void {
  const { errors, warnings } = findTimes(issuers, now)
  if (!issuers.some((issuer) => isUsable(issuer, now))) throw new Error(errors.join('\n'))
  for (const sentence of errors) log.error(sentence)
  for (const sentence of warnings) log.warn(sentence)
}

export function findTimes(issuers: readonly Times[], now: Date): TimeFindings {
  const findings: TimeFindings = { errors: [], warnings: [] }
  const judge = (what: string, end: Date) => {
    if (end < now) findings.errors.push(`${what} expired since ${end.toISOString()}`)
    else if (end.getTime() - now.getTime() < WARNING_DAYS * DAY_MS)
      findings.warnings.push(`${what} ends at ${end.toISOString()}`)
  }
  for (const { id, notBefore, notAfter, chainEndsAt } of issuers) {
    if (notBefore > now)
      findings.errors.push(`issuer ${id}: its certificate is not valid before ${notBefore.toISOString()}`)
    judge(`issuer ${id}: its certificate`, notAfter)
    if (chainEndsAt) judge(`issuer ${id}: a certificate above it in a chain`, chainEndsAt)
  }
  return findings
}
