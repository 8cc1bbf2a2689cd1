/**
 * A transparency log (RFC 6962). None can be had as a package, so one is written here: it checks the chain and signs as
 * §3.2 says, with bytes that it puts together itself.
 */

import assert from 'node:assert/strict'
import { createHash, generateKeyPairSync, sign, X509Certificate } from 'node:crypto'
import { type Receiver, startReceiver } from '../support/receiver.ts'

type Behaviour = 'sign' | 'sign another' | 'unavailable' | 'refuse' | 'hang' | 'talk'

export class TestLog {
  readonly keys = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  #receiver: Receiver | undefined
  /** The next answers; then it signs. */
  answers: Behaviour[] = []
  submissions = 0

  async listen(): Promise<string> {
    this.#receiver = await startReceiver((body, response, request) => {
      this.submissions++
      const behaviour = this.answers.shift() ?? 'sign'
      if (behaviour === 'unavailable') response.writeHead(503, { 'Retry-After': '1' }).end()
      else if (behaviour === 'refuse') response.writeHead(400).end('unknown root')
      else if (behaviour === 'talk') response.end('hello')
      else if (behaviour !== 'hang') response.end(this.#sign(request.url ?? '', body, behaviour === 'sign another'))
    })
    return `${this.#receiver.url}2026`
  }

  close(): void {
    this.#receiver?.close()
  }

  #sign(url: string, body: string, another: boolean): string {
    assert.equal(url, '/2026/ct/v1/add-chain')
    const chain = (JSON.parse(body).chain as string[]).map((text) => new X509Certificate(Buffer.from(text, 'base64')))
    const [leaf, issuer] = chain as [X509Certificate, X509Certificate]
    assert.ok(leaf.verify(issuer.publicKey), 'the second certificate has signed the first')
    const timestamp = 1_800_000_000_123
    const hex = (value: number, bytes: number) => value.toString(16).padStart(bytes * 2, '0')
    const tbs = `00${'00'}${hex(timestamp, 8)}${'0000'}${hex(leaf.raw.length, 3)}${leaf.raw.toString('hex')}${'0000'}`
    const signed = sign('sha256', Buffer.from(another ? `${tbs}00` : tbs, 'hex'), this.keys.privateKey)
    const spki = this.keys.publicKey.export({ type: 'spki', format: 'der' })
    return JSON.stringify({
      sct_version: 0,
      id: createHash('sha256').update(spki).digest('base64'),
      timestamp,
      extensions: '',
      signature: Buffer.from(`0403${hex(signed.length, 2)}${signed.toString('hex')}`, 'hex').toString('base64'),
    })
  }
}
