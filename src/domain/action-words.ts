/**
 * Acts of administrators and of ACME clients, times, and entries of the audit log that were written back, in words for the
 * console, mails and commands. Pure.
 */

/** The first part of an action. */
const SUBJECTS: Readonly<Record<string, string>> = {
  acme: 'ACME client',
  auth: 'Sign-in',
  user: 'User',
  token: 'API token',
  approval: 'Approval',
  eab: 'EAB credential',
  identifier: 'Allowed identifier',
  csr_profile: 'CSR profile',
  account: 'Account',
  certificate: 'Certificate',
  import: 'Import',
  incident: 'Incident',
  key: 'Key',
  renewal: 'Renewal',
  crl: 'CRL',
  notification: 'Notification',
  event: 'Event',
  backend: 'CA backend',
  audit: 'Audit log',
  maintenance: 'Maintenance',
  signing: 'Signing',
  terms: 'Terms of service',
  settings: 'Settings',
  database: 'Database',
}

/** `EAB credential: add identifier` for `eab.add_identifier`. */
export function actionText(action: string): string {
  const [subject = '', verb = ''] = action.split('.')
  return `${SUBJECTS[subject] ?? subject}: ${verb.replaceAll('_', ' ')}`
}

/** To the second. */
export const utcText = (at: Date): string => `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC`

/** Entries that a fail-over took from the audit log, and that were written back at its end. */
export interface WrittenBack {
  entries: number
  /** Sentences; at most `MOST_SPANS`. */
  spans: readonly string[]
}

interface Entry {
  sequence: number
  /** `sequence` and `at` of the former entry. */
  details: Readonly<Record<string, unknown>>
  createdAt: Date
}

interface Span {
  entries: number
  /** Former numbers in the chain. */
  former: [first: number, last: number]
  /** Times of the entries, where they have some. */
  of: Date[]
  now: [first: number, last: number]
  at: Date
}

const MOST_SPANS = 20

/** Says which entries were lost, of when they are, and as which they were written back. */
export class WrittenBackEntries {
  readonly #spans: Span[] = []
  #last: Span | undefined
  #entries = 0

  /** In the order of the chain. */
  add({ sequence, details, createdAt }: Entry): void {
    const former = Number(details['sequence'])
    const decidedAt = new Date(String(details['at']))
    const of = Number.isNaN(decidedAt.getTime()) ? [] : [decidedAt]
    this.#entries += 1
    const last = this.#last
    if (last && last.now[1] + 1 === sequence && last.former[1] < former) {
      last.entries += 1
      last.former[1] = former
      last.now[1] = sequence
      last.of = [...last.of.slice(0, 1), ...of]
      return
    }
    this.#last = { entries: 1, former: [former, former], of, now: [sequence, sequence], at: createdAt }
    if (this.#spans.length < MOST_SPANS) this.#spans.push(this.#last)
  }

  /** Undefined without any. */
  report(): WrittenBack | undefined {
    return this.#entries > 0 ? { entries: this.#entries, spans: this.#spans.map(sentenceOf) } : undefined
  }
}

function sentenceOf({ entries, former, of, now, at }: Span): string {
  const [from, to] = [of.at(0), of.at(-1)]
  const when = from && to ? `, of ${from === to ? utcText(from) : `${utcText(from)} to ${utcText(to)}`},` : ''
  const [what, was, is] =
    entries === 1 ? [`entry ${former[0]}`, 'was', 'is'] : [`${entries} entries, ${former.join(' to ')}`, 'were', 'are']
  const as = entries === 1 ? `${now[0]}` : now.join(' to ')
  const comma = entries > 1 && when === '' ? ',' : ''
  return `${what}${when}${comma} ${was} lost by a fail-over and ${is} written back as ${as} at ${utcText(at)}`
}
