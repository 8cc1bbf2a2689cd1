/** The verdicts of `chancery doctor`. Pure. */

/** The areas, in the order of the report. The first word of a check's id names its area. */
export const AREAS = {
  configuration: 'Configuration',
  files: 'Files and rights',
  service: 'Service',
  database: 'Database',
  signer: 'Signer',
  clock: 'Clocks',
  proxy: 'Public URL and proxy',
  tls: 'Certificate of the service',
  crl: 'Revocation lists',
  resolvers: 'Name servers',
  challenges: 'Challenges',
  upstream: 'Servers of others',
  disk: 'Disks',
  credentials: 'Credentials and administrators',
  mail: 'Mail',
} as const
export type Area = keyof typeof AREAS
export const AREA_NAMES = Object.keys(AREAS) as Area[]

export type Result = 'failure' | 'warning' | 'unknown' | 'ok'

export interface Verdict {
  result: Result
  /** A sentence about what was seen, and how. */
  says: string
  /** The advice; always there for a warning and a failure. */
  mend?: string
  /** The name of the server that did not answer. Only the first finding about it is a failure. */
  who?: string | undefined
}

/** A check that does not apply to this installation finds undefined, and the report leaves it out. */
export type Found = Verdict | readonly Verdict[] | undefined

export const ok = (says: string): Verdict => ({ result: 'ok', says })
export const unknown = (says: string, mend?: string): Verdict => ({ result: 'unknown', says, ...(mend && { mend }) })
/** A fact cannot be had. @param reason ends the sentence */
export const unknownBecause = (reason: string, mend?: string): Verdict =>
  unknown(`cannot tell, because ${reason}`, mend)
export const warning = (says: string, mend: string): Verdict => ({ result: 'warning', says, mend })
export const failure = (says: string, mend: string): Verdict => ({ result: 'failure', says, mend })

/** The advice where a file or a process cannot be looked at. */
export const AS_ROOT = 'run chancery doctor as root'

/** A verdict where something is wrong; false or undefined where it is right. */
export type Possible = Verdict | false | undefined

/** @returns what is wrong, or one verdict that nothing is */
export function orOk(possible: readonly Possible[], says: string): readonly Verdict[] {
  const found = possible.filter((one) => one !== undefined && one !== false)
  return found.length > 0 ? found : [ok(says)]
}

/** A fact cannot be had: the checks that need it end as unknown. The reason is a sentence without "cannot tell". */
export class CannotTell extends Error {
  readonly mend: string | undefined
  readonly who: string | undefined

  constructor(reason: string, mend?: string, who?: string) {
    super(reason)
    this.mend = mend
    this.who = who
  }
}
