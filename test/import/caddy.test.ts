/** `chancery import step-ca` with what the ACME server of Caddy has really written: it keeps its books by step-ca's library. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { cpSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { type CaddyCa, startCaddyCa } from '../support/caddy-ca.ts'
import { goProgram } from '../support/go-program.ts'
import { chancery } from '../support/operator.ts'
import { requireMounts } from '../support/own-hosts.ts'
import { requireAll, requireCommand, requireGoLibraries, requirePort } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const ADDRESS = '127.80.0.4'
const NAME = 'web.caddy.test'
const NEEDS = requireAll(
  requireCommand('lego'),
  requireCommand('caddy'),
  requireGoLibraries('github.com/smallstep/nosql'),
  requireMounts(),
  await requirePort(80, ADDRESS),
)

describe('coming from Caddy', NEEDS, () => {
  const folder = temporaryFolder()
  let caddy: CaddyCa
  let service: TestService
  const file = (name: string) => path.join(folder, name)

  function lego(...args: string[]): Promise<string> {
    const common = ['--server', caddy.directoryUrl, '--http', '--http.port', `${ADDRESS}:80`, '--domains', NAME]
    const account = ['--email', 'web@caddy.test', '--accept-tos', '--path', file('lego')]
    return mustRun('lego', [...common, ...account, ...args], { env: { LEGO_CA_CERTIFICATES: file('ca/root.crt') } })
  }
  const leaf = () => new X509Certificate(readFileSync(file(`lego/certificates/${NAME}.crt`)))

  before(async () => {
    caddy = await startCaddyCa({ [NAME]: ADDRESS })
    cpSync(path.dirname(caddy.rootFile), file('ca'), { recursive: true })
    await lego('run')
    await caddy.end()
    const dumper = await goProgram('deploy/import/step-ca-dump')
    await mustRun('sh', ['-c', `'${dumper}' bbolt '${caddy.database}' > '${file('caddy.jsonl')}'`])
    service = await startTestService({
      fronts: 1,
      config: {
        server: {
          external_url: `https://127.0.0.1:${caddy.port}`,
          port: caddy.port,
          tls: { cert_path: file('tls.pem'), key_path: file('tls.key'), self_issued_names: ['127.0.0.1'] },
        },
        acme: { directory_aliases: ['/acme/local/directory'] },
        ca: {
          internal: {
            root_cert_path: file('ca/intermediate.crt'),
            root_key_path: file('ca/intermediate.key'),
            chain_path: file('ca/root.crt'),
          },
          // Caddy's intermediate lives for seven days.
          default_validity_days: 1,
          max_validity_days: 1,
        },
        challenges: { http01: { port: 80 } },
        dns: { zones: [{ zone: 'test', addresses: [ADDRESS] }] },
      },
    })
  })
  after(async () => {
    await service?.dispose()
    await caddy?.stop()
  })

  test('the books are equal, and its client renews here with its account and its directory', async () => {
    const words = ['import', 'step-ca', '--dump', file('caddy.jsonl'), '--provisioner', 'local', '--json']
    const { stdout, stderr } = await chancery(service, ...words)
    assert.notEqual(stdout, '', stderr)
    const { accounts, certificates } = JSON.parse(stdout)
    assert.deepEqual([accounts.read, accounts.new], [1, 1])
    assert.deepEqual([certificates.read, certificates.new], [1, 1])
    const former = leaf()
    await lego('renew', '--days', '4000', '--no-random-sleep')
    assert.notEqual(leaf().serialNumber, former.serialNumber)
    assert.equal(leaf().issuer, former.issuer)
  })
})
