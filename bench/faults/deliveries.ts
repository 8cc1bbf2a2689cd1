/** Events and mails as their receivers have written them down. */

import { existsSync, readFileSync } from 'node:fs'
import type { Finding } from './finding.ts'

export type Names = Map<string, { times: number; firstAt: number }>
/** Subject of a delivery → names under which it came. */
export type Deliveries = Map<string, Names>

/** At least once, and always under one name. @param since when the change was */
export function checkDelivery(kind: string, since: number, what: string, names: Names = new Map()): Finding[] {
  if (names.size === 0) return [{ trouble: 'lost', at: since, what: `no ${kind} of ${what}` }]
  if (names.size === 1) return []
  // The change may be older than the fault that let its mail come again.
  const at = Math.max(...[...names.values()].map(({ firstAt }) => firstAt))
  const incident = { at, since, what: `${kind} of ${what} under ${names.size} names` }
  return [{ trouble: 'doubled', ...incident, unpromised: 'repeated' }]
}

export function countDeliveries(of: Deliveries): { received: number; distinct: number } {
  const all = [...of.values()].flatMap((names) => [...names.values()])
  return { received: all.reduce((sum, { times }) => sum + times, 0), distinct: all.length }
}

function note(deliveries: Deliveries, about: string, name: string, at: number): void {
  const names: Names = deliveries.get(about) ?? new Map()
  const { times, firstAt } = names.get(name) ?? { times: 0, firstAt: at }
  names.set(name, { times: times + 1, firstAt })
  deliveries.set(about, names)
}

interface ReceivedEvent {
  at: number
  body: { id: string; type: string; data: { certificate_id: string } }
}

export function readEvents(file: string): Deliveries {
  const deliveries: Deliveries = new Map()
  for (const { at, body } of linesOf<ReceivedEvent>(file))
    note(deliveries, `${body.type.replace('chancery.', '')} ${body.data.certificate_id}`, body.id, at)
  return deliveries
}

export function readMails(file: string): Deliveries {
  const deliveries: Deliveries = new Map()
  for (const { at, id, text } of linesOf<{ at: number; id: string; text: string }>(file)) {
    const serial = /\b[0-9a-f]{32,40}\b/.exec(text)?.[0]
    if (serial && text.includes('was issued to')) note(deliveries, serial, id, at)
  }
  return deliveries
}

function linesOf<T>(file: string): T[] {
  if (!existsSync(file)) return []
  const text = readFileSync(file, 'utf8')
  // The last line of a killed process may be half a line; the sender has no answer to it, and sends again.
  return text.split('\n').flatMap((line) => {
    try {
      return line === '' ? [] : [JSON.parse(line) as T]
    } catch {
      return []
    }
  })
}
