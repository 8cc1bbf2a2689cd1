/** The facts of a doctor's visit are fetched once each. */

import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { parseConfigText } from '../../src/config/load.ts'
import { requireAnswer, Sources } from '../../src/doctor/sources.ts'

test('a request is sent once, and two requests whose bodies only begin alike are two', async () => {
  const received: string[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => {
      body += chunk
    })
    request.once('end', () => response.end(String(received.push(body))))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const text = `{
    server: { external_url: "https://acme.test", bind: 127.0.0.1, port: ${port} },
    database: { database: none, user: none },
    ca: { signer: { socket: /nowhere/socket, secret_file: /nowhere/secret } }
  }`
  const parsed = parseConfigText(text, { format: 'yaml', env: {} })
  assert.ok(parsed.ok)
  const sources = new Sources({
    configFile: '/nowhere/config.yaml',
    loaded: { ...parsed, path: '/nowhere/config.yaml' },
    signerConfigFile: undefined,
    target: undefined,
    testSign: false,
    version: '0',
    inspectFiles: () => ({ errors: [], warnings: [] }),
  })
  const ask = async (body: string) => {
    const asked = await sources.directly('/new-account', { method: 'POST', body })
    return requireAnswer(asked, 'the service').body.toString()
  }
  try {
    const begin = 'x'.repeat(300)
    assert.equal(await ask(`${begin}a`), '1')
    assert.equal(await ask(`${begin}b`), '2')
    assert.equal(await ask(`${begin}a`), '1')
    assert.deepEqual(received, [`${begin}a`, `${begin}b`])
  } finally {
    await sources.close()
    server.close()
  }
})
