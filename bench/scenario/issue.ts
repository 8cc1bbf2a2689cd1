/**
 * One certificate from order to download (RFC 8555 §7.4), with the seven signed requests of common clients.
 *
 * These are new-order, authorization, challenge, authorization again, finalize, order, certificate; there are more when
 * a poll came early.
 */

import { createHash } from 'node:crypto'
import { type AcmeClient, parseObject } from '../client/acme.ts'
import { Failure, type HttpResponse } from '../client/http.ts'
import {
  type Account,
  type Challenge,
  createOrder,
  type Issued,
  parseAuthorization,
  parseOrder,
  pollUntil,
} from '../client/resources.ts'
import type { Context, Proof, Scenario } from './scenario.ts'

/**
 * What is published before a challenge is triggered. http-01 needs nothing, because its responder knows all accounts;
 * the server validates a type that is not here without asking us.
 */
const PROOFS: Readonly<Record<string, (challenge: Challenge, account: Account, name: string) => Proof>> = {
  // RFC 8555 §8.4.
  'dns-01': (challenge, account, name) => ({ name: `_acme-challenge.${name}`, text: digestFor(challenge, account) }),
  // RFC 8737 §3.
  'tls-alpn-01': (challenge, account, name) => ({ name, text: digestFor(challenge, account) }),
  // draft-ietf-acme-dns-account-label §3.
  'dns-account-01': (challenge, account, name) => ({
    name: `_${accountLabel(account.url)}._acme-challenge.${name}`,
    text: digestFor(challenge, account),
  }),
  // draft-ietf-acme-dns-persist §3.1.
  'dns-persist-01': (challenge, account, name) => ({
    name: `_validation-persist.${name}`,
    text: `${issuerOf(challenge)}; accounturi=${account.url}`,
  }),
}

/** Methods that `bench/responder` answers. */
export const ANSWERED_TYPES = ['http-01', ...Object.keys(PROOFS)]

/** @returns undefined when there is nothing to publish. @throws Failure `protocol` for a challenge that lacks a member */
export function proofFor(challenge: Challenge, account: Account, name: string): Proof | undefined {
  return PROOFS[challenge.type]?.(challenge, account, name)
}

function digestFor({ type, token }: Challenge, { thumbprint }: Account): string {
  if (typeof token !== 'string') throw new Failure('protocol', `the ${type} challenge has no token`)
  return createHash('sha256').update(`${token}.${thumbprint}`).digest('base64url')
}

function issuerOf(challenge: Challenge): string {
  const names = challenge['issuer-domain-names']
  const first: unknown = Array.isArray(names) ? names[0] : undefined
  if (typeof first !== 'string') throw new Failure('protocol', 'the dns-persist-01 challenge names no issuer')
  return first
}

/** The first ten bytes of the SHA-256 of the account's URL, in base32 (RFC 4648 §6). */
function accountLabel(url: string): string {
  const bytes = createHash('sha256').update(url).digest().subarray(0, 10)
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('')
  return bits.replaceAll(/.{5}/g, (five) => 'abcdefghijklmnopqrstuvwxyz234567'[Number.parseInt(five, 2)] as string)
}

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
