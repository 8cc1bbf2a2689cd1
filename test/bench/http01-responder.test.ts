import assert from 'node:assert/strict'
import { get } from 'node:http'
import { after, before, describe, test } from 'node:test'
import { type Http01Responder, startHttp01Responder } from '../../bench/responder/http-01.ts'
import { Proofs } from '../../bench/responder/proofs.ts'

// RFC 8555 §8.3: the body is token "." thumbprint.
describe('http-01 responder', () => {
  let responder: Http01Responder
  before(async () => {
    responder = await startHttp01Responder('127.0.0.1', 0, ['first', 'second'], new Proofs())
  })
  after(() => responder.close())

  const fetch = (path: string, host: string) =>
    new Promise<{ status: number | undefined; body: string }>((resolve, reject) => {
      const request = get({ host: '127.0.0.1', port: responder.port, path, headers: { host } }, (response) => {
        let body = ''
        response.on('data', (chunk: Buffer) => {
          body += chunk
        })
        response.on('end', () => resolve({ status: response.statusCode, body }))
      })
      request.on('error', reject)
    })
  const challenge = (token: string, host: string) => fetch(`/.well-known/acme-challenge/${token}`, host)

  test('answers for the account that the name tells', async () => {
    assert.deepEqual(await challenge('tok_-1', 'b0-1-z.test'), { status: 200, body: 'tok_-1.second' })
    assert.deepEqual(await challenge('tok_-2', 'b0-0-z.test:5002'), { status: 200, body: 'tok_-2.first' })
  })

  test('knows no other names and paths', async () => {
    assert.equal((await challenge('t', 'b0-2-z.test')).status, 404)
    assert.equal((await challenge('t', 'www.test')).status, 404)
    assert.equal((await fetch('/', 'b0-1-z.test')).status, 404)
  })

  test('says which port is taken', async () => {
    await assert.rejects(
      startHttp01Responder('127.0.0.1', responder.port, [], new Proofs()),
      /http-01 responder on 127\.0\.0\.1:\d+: .*EADDRINUSE/,
    )
  })
})
