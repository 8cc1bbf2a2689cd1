/**
 * The books after faults: what clients hold, the database, the signer's chain, the published list, events and mails. A fault
 * may delay all of them, and must not leave them at odds.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { auditLines, parseAuditLine } from '../../signer/audit/line.ts'
import type { Clients, Incident } from './clients.ts'
import { checkDelivery, countDeliveries, readEvents, readMails } from './deliveries.ts'
import type { Finding, Trouble, Unpromised } from './finding.ts'
import type { ListWatch } from './list-watch.ts'
import type { Stand } from './stand.ts'
import { until } from './waiting.ts'

/** Longer than what is under way takes. */
const UNDER_WAY_MS = 10_000

export interface Books {
  certificates: number
  revoked: number
  /** Signatures over certificates, repeated ones included. */
  signatures: number
  /** Deliveries and distinct ones. */
  events: { received: number; distinct: number }
  mails: { received: number; distinct: number }
  findings: Finding[]
}

export interface BooksOptions {
  stand: Stand
  clients: Clients
  list: ListWatch
  /** All that was begun must have ended by itself within this. */
  boundMs: number
}

interface Recorded {
  id: string
  order_id: string | null
  serial: string
  fingerprint: string
  revoked: boolean
  at: number
}

const CERTIFICATES = `
  SELECT id::text, order_id::text, encode(serial_number, 'hex') AS serial, encode(sha256(der), 'hex') AS fingerprint,
         revoked_at IS NOT NULL AS revoked, (extract(epoch FROM issued_at) * 1000)::float8 AS at
    FROM certificates WHERE backend IS NULL`

/** Whatever waits to be done, with the instant since when. */
const UNFINISHED = `
  SELECT what, (extract(epoch FROM at) * 1000)::float8 AS at FROM (
    SELECT 'order ' || id || ' is processing', now() FROM orders WHERE status = 'processing'
    UNION ALL SELECT 'issuance for order ' || order_id, created_at FROM issuance_intents
    UNION ALL SELECT 'validation ' || id, validating_since FROM authorizations
      WHERE status = 'pending' AND validating_by IS NOT NULL
    UNION ALL SELECT 'event ' || event_id || ' (' || kind || ') for ' || consumer, occurred_at FROM event_deliveries
    UNION ALL SELECT 'mail ' || id || ' is ' || status, created_at FROM notifications WHERE status <> 'sent'
  ) AS waits (what, at) LIMIT 1000`

const DEAD = `
  SELECT kind || ' for ' || consumer || ': ' || error AS what, (extract(epoch FROM failed_at) * 1000)::float8 AS at
    FROM event_dead_letters LIMIT 1000`

export async function checkBooks({ stand, clients, list, boundMs }: BooksOptions): Promise<Books> {
  const { databases } = stand
  const findings: Finding[] = []
  const find = (trouble: Trouble, incidents: readonly Incident[], unpromised?: Unpromised) =>
    findings.push(...incidents.map((incident) => ({ trouble, ...incident, ...(unpromised && { unpromised }) })))

  const unfinished = () => databases.ask<Incident & { what: string }>(UNFINISHED)
  const nothingWaits = async () => (await unfinished()).length === 0 && (await isAgreed())
  /** These repair themselves: records that the signer has and the database has not, and entries of the list. */
  const isAgreed = async () => {
    const recorded = new Set((await databases.ask<Recorded>(CERTIFICATES)).map(({ serial }) => serial))
    const listed = await list.read()
    return (
      (await readChain(stand.auditFile)).every(({ serial }) => recorded.has(serial)) &&
      clients.revoked.every(({ serial }) => listed.has(serial))
    )
  }
  // What still waits or differs at the bound is found below.
  await until('nothing waits', nothingWaits, boundMs).catch(() => undefined)

  const recorded = await databases.ask<Recorded>(CERTIFICATES)
  const signed = await readChain(stand.auditFile)
  // Background work, such as a CRL, also appears here for a moment. What appears twice is stuck.
  const waiting = await unfinished()
  if (waiting.length > 0) await sleep(UNDER_WAY_MS)
  const later = new Set((await unfinished()).map(({ what }) => what))
  find(
    'stuck',
    waiting.filter(({ what }) => later.has(what)),
  )
  find('lost', await databases.ask<Incident & { what: string }>(DEAD))
  find('lost', lostCertificates(clients, recorded, signed))
  find('lost', await lostRevocations(clients, recorded, list))
  find('lost', clients.forgotten, 'forgotten')
  find('lost', list.stepsBack)
  find('doubled', doubledCertificates(recorded, signed))
  find('error', clients.complaints)
  const events = readEvents(stand.webhookFile)
  const mails = readMails(stand.mailFile)
  // The clock of the database may have been wrong.
  const heldAt = new Map(clients.held.map(({ serial, at }) => [serial, at]))
  const revokedAt = new Map(clients.revoked.map(({ serial, at }) => [serial, at]))
  for (const { id, serial, order_id, revoked, ...one } of recorded) {
    if (order_id === null) continue
    const at = heldAt.get(serial) ?? one.at
    const checkEvent = (at: number, what: string) =>
      findings.push(...checkDelivery('event', at, what, events.get(what)))
    checkEvent(at, `certificate.issuance ${id}`)
    if (revoked) checkEvent(revokedAt.get(serial) ?? at, `certificate.revocation ${id}`)
    findings.push(...checkDelivery('mail', at, `issuance ${serial}`, mails.get(serial)))
  }
  return {
    certificates: recorded.length,
    revoked: recorded.filter(({ revoked }) => revoked).length,
    signatures: signed.length,
    events: countDeliveries(events),
    mails: countDeliveries(mails),
    findings,
  }
}

interface Signed {
  serial: string
  sha256: string
  at: number
}

async function readChain(file: string): Promise<Signed[]> {
  const signed: Signed[] = []
  for await (const { text } of auditLines(file)) {
    const line = parseAuditLine(text)
    if (line?.method !== 'signCertificate') continue
    signed.push({ serial: line.serial, sha256: line.sha256, at: Date.parse(line.time) })
  }
  return signed
}

function lostCertificates({ held }: Clients, recorded: readonly Recorded[], signed: readonly Signed[]): Incident[] {
  const bySerial = new Map(recorded.map((one) => [one.serial, one]))
  const signatures = new Set(signed.map(({ serial }) => serial))
  return [
    ...held
      .filter(({ serial, fingerprint }) => bySerial.get(serial)?.fingerprint !== fingerprint)
      .map(({ serial, at }) => ({ at, what: `certificate ${serial} of a client is not in the database` })),
    ...held
      .filter(({ serial }) => !signatures.has(serial))
      .map(({ serial, at }) => ({ at, what: `certificate ${serial} of a client is not in the chain` })),
    ...recorded
      .filter(({ serial }) => !signatures.has(serial))
      .map(({ serial, at }) => ({ at, what: `certificate ${serial} of the database is not in the chain` })),
    ...[...new Map(signed.map((one) => [one.serial, one])).values()]
      .filter(({ serial }) => !bySerial.has(serial))
      .map(({ serial, at }) => ({ at, what: `certificate ${serial} of the chain is not in the database` })),
  ]
}

async function lostRevocations(
  { revoked }: Clients,
  recorded: readonly Recorded[],
  list: ListWatch,
): Promise<Incident[]> {
  const known = new Set(recorded.filter((one) => one.revoked).map(({ serial }) => serial))
  const listed = await list.read()
  return revoked.flatMap(({ serial, at }) => [
    ...(known.has(serial) ? [] : [{ at, what: `revocation of ${serial} is not in the database` }]),
    ...(listed.has(serial) ? [] : [{ at, what: `revocation of ${serial} is not in every list` }]),
  ])
}

/** An order with two certificates cannot be: the table forbids it. */
function doubledCertificates(recorded: readonly Recorded[], signed: readonly Signed[]): Incident[] {
  const digests = new Map<string, string>()
  const serials = new Set<string>()
  return [
    ...signed
      .filter(({ serial, sha256 }) => (digests.get(serial) ?? digests.set(serial, sha256).get(serial)) !== sha256)
      .map(({ serial, at }) => ({ at, what: `serial number ${serial} stands for two certificates` })),
    ...recorded
      .filter(({ serial }) => serials.size === serials.add(serial).size)
      .map(({ serial, at }) => ({ at, what: `serial number ${serial} is recorded twice` })),
  ]
}
