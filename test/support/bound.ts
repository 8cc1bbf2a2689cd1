/** Binding credentials made through the Admin API, and ACME clients registered with them. */

import assert from 'node:assert/strict'
import { type AcmeClient, createAcmeClient, type Transport } from './acme-client.ts'
import type { AdminClient } from './admin.ts'
import { bindingFor } from './operator.ts'
import type { TestService } from './service.ts'

export const accountIdOf = (client: AcmeClient) => client.kid.split('/').at(-1) as string
/** A UUID that nobody has. */
export const NOBODY = '01938c4e-0000-7000-8000-000000000000'

export interface MadeCredential {
  id: string
  kid: string
  hmac_key: string
}

/** @returns the body of the reply */
export async function made<T = { id: string }>(admin: AdminClient, path: string, body: object): Promise<T> {
  const reply = await admin.send('POST', path, body)
  assert.equal(reply.status, 201, reply.text)
  return reply.json
}

export async function boundClient(
  service: TestService,
  credential: MadeCredential,
  transport?: Transport,
): Promise<AcmeClient> {
  const client = await createAcmeClient(service.directoryUrl, undefined, transport)
  const key = { kid: credential.kid, hmacKey: Buffer.from(credential.hmac_key, 'base64url') }
  const answer = await client.newAccount({
    termsOfServiceAgreed: true,
    externalAccountBinding: bindingFor(client, key),
  })
  assert.equal(answer.status, 201, answer.text)
  return client
}

/** A change that answers 204. */
export async function change(admin: AdminClient, method: 'PUT' | 'DELETE', path: string): Promise<void> {
  const reply = await admin.send(method, path)
  assert.equal(reply.status, 204, reply.text)
  assert.equal(reply.text, '')
}

export interface AuditEntry {
  id: string
  action: string
  user_id: string | null
  target_user_id: string | null
  ip_address: string | null
  details: Record<string, unknown>
  created_at: string
}

/** Actions and details of the newest entries, the newest first. */
export async function newestEntries(admin: AdminClient, count: number) {
  const { json } = await admin.get(`/audit-log?limit=${count}`)
  return (json as { action: string; details: Record<string, unknown> }[]).map(({ action, details }) => ({
    action,
    details,
  }))
}
