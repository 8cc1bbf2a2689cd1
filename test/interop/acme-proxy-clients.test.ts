/** certbot and lego with a service whose certificates come from another ACME service: they notice nothing. */

import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { type ChainedServices, startChainedServices } from '../support/chained-service.ts'
import { issuedChecks } from '../support/issued.ts'
import { requireCommand } from '../support/requirements.ts'
import { withQuery } from '../support/revoked.ts'
import { mustRun } from '../support/run-command.ts'
import type { TestService } from '../support/service.ts'

describe('clients of a service behind another ACME service', requireCommand('openssl'), () => {
  let folder: string
  let upstream: TestService
  let service: TestService
  let chained: ChainedServices

  before(async () => {
    chained = await startChainedServices({ fronts: 1 })
    ;({ upstream, service, folder } = chained)
  })
  after(() => chained?.dispose())

  const checksOf = (one: TestService) =>
    issuedChecks(upstream.ca.root, (sql, values) =>
      withQuery(one.database.connection, (query) => query(sql, [...values])),
    )

  test('certbot obtains, renews and revokes', requireCommand('certbot'), async () => {
    const names = ['certbot-a.test', 'certbot-b.test']
    const own = path.join(folder, 'certbot')
    const certbot = (...words: string[]) =>
      mustRun('certbot', [
        ...words,
        '--config-dir',
        own,
        '--work-dir',
        own,
        '--logs-dir',
        own,
        '-n',
        '--server',
        service.directoryUrl,
      ])
    await certbot(
      'certonly',
      '--standalone',
      '--http-01-port',
      String(service.http01Port),
      '--cert-name',
      'chained',
      '--agree-tos',
      '--register-unsafely-without-email',
      ...names.flatMap((name) => ['-d', name]),
    )
    const file = path.join(own, 'live', 'chained', 'fullchain.pem')
    const first = checksOf(service).checkFile(file, names)
    await certbot('renew', '--cert-name', 'chained', '--force-renewal', '--no-random-sleep-on-renew')
    const second = checksOf(service).checkFile(file, names, first)
    await certbot('revoke', '--cert-path', path.join(own, 'live', 'chained', 'cert.pem'), '--no-delete-after-revoke')
    await checksOf(service).assertRevoked(second, 0)
    await checksOf(service).assertNotRevoked(first)
  })

  test('lego obtains and renews', requireCommand('lego'), async () => {
    const names = ['lego-a.test', 'lego-b.test']
    const lego = (...words: string[]) =>
      mustRun('lego', [
        '--server',
        service.directoryUrl,
        '--http',
        '--http.port',
        `:${service.http01Port}`,
        '--accept-tos',
        '--email',
        'admin@lego.test',
        '--path',
        path.join(folder, 'lego'),
        ...names.flatMap((name) => ['--domains', name]),
        ...words,
      ])
    const file = path.join(folder, 'lego', 'certificates', `${names[0]}.crt`)
    await lego('run')
    const first = checksOf(service).checkFile(file, names)
    await lego('renew', '--days', '4000', '--no-random-sleep')
    checksOf(service).checkFile(file, names, first)
  })
})
