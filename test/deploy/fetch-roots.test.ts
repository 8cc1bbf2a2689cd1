/** The script of deploy/kubernetes/examples that keeps a ConfigMap's roots new. The API of Kubernetes is a server that notes what it is asked. */

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, beforeEach, describe, test } from 'node:test'
import { makeAuthority } from '../signer/authority.ts'
import { loopbackCertificate } from '../support/certificates.ts'
import { KUBERNETES_FOLDER } from '../support/kubernetes.ts'
import { runCommand } from '../support/run-command.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const SCRIPT = path.join(KUBERNETES_FOLDER, 'examples/fetch-roots.mjs')
const PLACE = '/api/v1/namespaces/cert-manager/configmaps/chancery-roots'

describe('fetch-roots.mjs', () => {
  const folder = temporaryFolder()
  const root = makeAuthority('P-256', { name: 'New root' }).certificatePem
  const servers: Server[] = []
  const asked: { method?: string | undefined; url?: string | undefined; token?: string | undefined; body: string }[] =
    []
  let bundle: string
  let known: string
  let env: Record<string, string>

  async function serve(answer: (request: IncomingMessage) => Promise<string>): Promise<{ port: number; cert: string }> {
    const { cert, key } = await loopbackCertificate()
    const server = createServer({ cert, key }, (request, reply) => void answer(request).then((body) => reply.end(body)))
    servers.push(server)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return { port: (server.address() as AddressInfo).port, cert }
  }

  before(async () => {
    const service = await serve(async () => bundle)
    known = service.cert
    const api = await serve(async (request) => {
      const { method, url, headers } = request
      asked.push({ method, url, token: headers.authorization, body: await text(request) })
      return '{}'
    })
    for (const [name, content] of Object.entries({ 'ca.crt': api.cert, namespace: 'cert-manager', token: 'the-token' }))
      writeFileSync(path.join(folder, name), content)
    env = {
      ROOTS_URL: `https://127.0.0.1:${service.port}/roots.pem`,
      ROOTS_CONFIG_MAP: 'chancery-roots',
      ROOTS_FILE: path.join(folder, 'roots.pem'),
      ACCOUNT_FOLDER: folder,
      KUBERNETES_SERVICE_HOST: '127.0.0.1',
      KUBERNETES_SERVICE_PORT: String(api.port),
    }
  })
  beforeEach(() => {
    asked.length = 0
    writeFileSync(path.join(folder, 'roots.pem'), known)
  })
  after(() => {
    for (const server of servers) server.close()
  })

  const run = () => runCommand(process.execPath, [SCRIPT], { env })

  test('writes new roots into the ConfigMap', async () => {
    bundle = root
    const { code, output } = await run()
    assert.equal(code, 0, output)
    const body = JSON.stringify({ data: { 'roots.pem': root } })
    assert.deepEqual(asked, [{ method: 'PATCH', url: PLACE, token: 'Bearer the-token', body }])
  })

  test('asks for nothing where they are the same', async () => {
    bundle = known
    assert.deepEqual([(await run()).code, asked], [0, []])
  })

  test('takes the certificate of a server for no root', async () => {
    bundle = root + known
    assert.deepEqual([(await run()).code, asked], [1, []])
  })

  test('believes nobody whose certificate the former roots do not know', async () => {
    writeFileSync(path.join(folder, 'roots.pem'), root)
    bundle = root
    const { code, output } = await run()
    assert.deepEqual([code, asked], [1, []])
    assert.match(output, /SELF_SIGNED|self-signed/)
  })

  test('takes no page for roots', async () => {
    bundle = '<html>not found</html>'
    assert.deepEqual([(await run()).code, asked], [1, []])
  })
})
