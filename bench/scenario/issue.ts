/**
 * One certificate from order to download (RFC 8555 §7.4), with the seven signed requests of common clients.
 *
 * These are new-order, authorization, challenge, authorization again, finalize, order, certificate; there are more when
 * a poll came early.
 */

import type { Account, Issued } from '../client/account.ts'
import { type AcmeClient, parseObject } from '../client/acme.ts'
import { Failure } from '../client/failure.ts'
import type { HttpResponse } from '../client/http.ts'
import { createOrder, parseAuthorization, parseOrder } from '../client/order.ts'
import { pollUntil } from '../client/polling.ts'
import { proofFor } from './challenge.ts'
import type { Context, Scenario } from './scenario.ts'

/** The least that every certificate takes: seven requests, its CSR, and its own signature. */
export const ISSUANCE_FLOOR = { verifications: 8, signatures: 1 }

export const fullFlow: Scenario = {
  usesAccounts: true,
  answersChallenges: true,
  floor: ISSUANCE_FLOOR,
  async operate(client, context) {
    const account = context.nextAccount()
    await issueCertificate(client, context, account, context.nextName(account))
  },
}

/** @param replaces certID of the certificate that this one follows (RFC 9773 §5) @throws Failure */
export async function issueCertificate(
  client: AcmeClient,
  context: Context,
  account: Account,
  name: string,
  replaces?: string,
): Promise<Issued> {
  const { url, order } = await createOrder(client, context.directory, account, name, replaces)
  for (const authorization of order.authorizations) await authorize(client, context, account, authorization, name)

  const finalized = await client.post('finalize', account, order.finalize, `{"csr":"${context.csrFor(name)}"}`)
  const certificateUrl = await awaitCertificate(client, context, account, url, finalized)
  const { contentType, body } = await client.post('certificate', account, certificateUrl, '')
  if (!contentType.startsWith('application/pem-certificate-chain'))
    throw new Failure('check-chain', `the certificate came as ${contentType || 'no media type'}`)
  const chainPem = body.toString('latin1')
  context.collect({ name, chainPem })
  return { name, certificateUrl, chainPem }
}

async function authorize(
  client: AcmeClient,
  { target, publish }: Context,
  account: Account,
  url: string,
  name: string,
): Promise<void> {
  const { status, challenges } = parseAuthorization(await client.post('authorization', account, url, ''))
  if (status === 'valid') return
  const challenge = challenges.find(({ type }) => type === target.challengeType)
  if (!challenge) throw new Failure('no-challenge', `the authorization offers no ${target.challengeType} challenge`)
  const proof = proofFor(challenge, account, name)
  if (proof) await publish(proof)
  const accepted = await client.post('challenge', account, challenge.url, '{}')
  const read = () => client.post('poll-authorization', account, url, '')
  const settled = (response: HttpResponse) => parseAuthorization(response).status === 'valid'
  // Read at least once, as the order is; at once where the reply says already that the challenge is valid.
  const isValid = parseObject(accepted)['status'] === 'valid'
  if (!isValid || !settled(await read())) await pollUntil(target.timeoutMs, accepted, read, settled)
}

/** The order is read at least once, as clients do, also when the reply to finalize says already that it is valid. */
async function awaitCertificate(
  client: AcmeClient,
  { target }: Context,
  account: Account,
  orderUrl: string,
  finalized: HttpResponse,
): Promise<string> {
  let certificate: string | undefined
  const read = () => client.post('poll-order', account, orderUrl, '')
  const settled = (response: HttpResponse) => {
    certificate = parseOrder(response).certificate
    return certificate !== undefined
  }
  const isValid = parseOrder(finalized).status === 'valid'
  if (!isValid || !settled(await read())) await pollUntil(target.timeoutMs, finalized, read, settled)
  return certificate as unknown as string
}
