/** A client that meets dns-persist-01, which no client of Debian does yet: it registers, has a record published, and orders. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { answerOf, createAcmeClient, csrFor, locationOf, type Transport } from '../support/acme-client.ts'
import { bindingFor, type EabCredential } from '../support/operator.ts'

function overTls(agent: Agent): Transport {
  return ({ method = 'POST', url, headers = {}, body }) =>
    new Promise((resolve, reject) => {
      const outgoing = request(url, { method, agent, headers }, (incoming) => {
        const chunks: Buffer[] = []
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
        incoming.on('end', () => resolve(answerOf(incoming.statusCode ?? 0, incoming.headers, Buffer.concat(chunks))))
      })
      outgoing.on('error', reject)
      outgoing.end(body)
    })
}

/** @returns the chain */
export async function obtainByPersist(
  directoryUrl: string,
  rootFile: string,
  name: string,
  credential: EabCredential,
  publish: (accountUrl: string) => Promise<void>,
): Promise<string> {
  const agent = new Agent({ ca: readFileSync(rootFile) })
  const client = await createAcmeClient(directoryUrl, undefined, overTls(agent))
  const externalAccountBinding = bindingFor(client, credential)
  const account = await client.newAccount({ termsOfServiceAgreed: true, externalAccountBinding })
  assert.equal(account.status, 201, account.text)
  await publish(client.kid)
  const order = await client.newOrder([name])
  const [url] = order.json.authorizations
  const { challenges } = (await client.post(url)).json
  const challenge = challenges.find(({ type }: { type: string }) => type === 'dns-persist-01')
  await client.post(challenge.url, {})
  const authorization = await client.settled(url)
  assert.equal(authorization.json.status, 'valid', authorization.text)
  const finalized = await client.post(order.json.finalize, { csr: await csrFor([name]) })
  const done = finalized.json.status === 'processing' ? await client.settled(locationOf(order)) : finalized
  const chain = (await client.post(done.json.certificate)).text
  agent.destroy()
  return chain
}
