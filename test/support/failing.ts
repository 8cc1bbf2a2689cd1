/** A client's web server gives another answer to an http-01 challenge than the right one. */

import type { AcmeClient, Answer, Responder } from './acme-client.ts'

/** @returns the order, and the challenge that fails */
export async function failHttp01(
  client: AcmeClient,
  responder: Pick<Responder, 'answer'>,
  name: string,
  wrong = 'another server',
): Promise<{ order: Answer; challenge: { token: string; url: string } }> {
  const order = await client.newOrder([name])
  const { json } = await client.post(order.json.authorizations[0])
  const challenge = json.challenges.find(({ type }: { type: string }) => type === 'http-01')
  responder.answer(challenge.token, wrong)
  await client.post(challenge.url, {})
  return { order, challenge }
}
