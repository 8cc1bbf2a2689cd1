/** Records of dns-persist-01, and orders that they prove. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { NXDOMAIN } from '../../workers/scripted-dns.ts'
import {
  type AccountKeyPair,
  type AcmeClient,
  type Answer,
  changeKey,
  csrFor,
  pemToDer,
  withKey,
} from '../acme-client.ts'
import type { Names } from '../names/scripted-names.ts'
import { until } from '../until.ts'

export const ISSUER = 'ca.example'
const HOUR = 3600

/** A zone that tests write to while the service reads it. */
export interface Zone {
  publish(name: string, text: string, ttl?: number): void
  remove(name: string): void
  asked(name: string): number
}

export function zoneOf(dns: Names['methods']): Zone {
  const records = new Map<string, { text: string; ttl: number }[]>()
  dns.script = ({ name }) => {
    const found = records.get(name)
    if (!found) return { rcode: NXDOMAIN }
    return {
      answers: found.map(({ text, ttl }) => ({ type: 'TXT', name, ttl, data: text.match(/.{1,255}/g) ?? [''] })),
    }
  }
  const owner = (name: string) => `_validation-persist.${name}`
  return {
    publish(name, text, ttl = 2 * HOUR) {
      records.set(owner(name), [...(records.get(owner(name)) ?? []), { text, ttl }])
    },
    remove: (name) => void records.delete(owner(name)),
    asked: (name) => dns.asked.filter((one) => one.name === owner(name)).length,
  }
}

export const challengeOf = (authorization: Answer) =>
  authorization.json.challenges.find(({ type }: { type: string }) => type === 'dns-persist-01')

/** Orders, triggers dns-persist-01 for every pending authorization and waits for the verdicts. */
export async function authorize(client: AcmeClient, names: readonly string[]) {
  const order = await client.newOrder(names)
  assert.equal(order.status, 201, order.text)
  const authorizations: Answer[] = []
  for (const url of order.json.authorizations) {
    const authorization = await client.post(url)
    if (authorization.json.status === 'pending') {
      const triggered = await client.post(challengeOf(authorization).url, {})
      assert.equal(triggered.status, 200, triggered.text)
    }
    authorizations.push(await client.settled(url))
  }
  return { order: await client.post(String(order.headers.location)), authorizations }
}

export async function finalize(client: AcmeClient, order: Answer, names: readonly string[]): Promise<X509Certificate> {
  const finalized = await client.post(order.json.finalize, { csr: await csrFor(names) })
  assert.equal(finalized.status, 200, finalized.text)
  const done = await client.settled(String(finalized.headers.location))
  assert.equal(done.json.status, 'valid', done.text)
  return new X509Certificate(pemToDer((await client.post(done.json.certificate)).text)[0] as Buffer)
}

/** Triggers dns-persist-01 for an order of one name. @returns the first error that the challenge shows */
export async function firstError(client: AcmeClient, order: Answer): Promise<{ type: string; detail: string }> {
  const { url } = challengeOf(await client.post(order.json.authorizations[0]))
  await client.post(url, {})
  return until('the challenge shows an error', async () => (await client.post(url)).json.error)
}

export const secondsFromNow = (authorization: Answer) => (Date.parse(authorization.json.expires) - Date.now()) / 1000
export const errorOf = (authorization: Answer) => challengeOf(authorization).error
export const unixTime = (seconds: number) => Math.floor(Date.now() / 1000) + seconds

export async function withNewKey(client: AcmeClient, key: AccountKeyPair): Promise<AcmeClient> {
  const changed = await changeKey(client, key)
  assert.equal(changed.status, 200, changed.text)
  return withKey(client, key)
}
