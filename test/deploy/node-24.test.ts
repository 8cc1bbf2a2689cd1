/** A short ring of the tests on Node.js 24, which Debian 12 cannot run: in a root of Debian 13, with its PostgreSQL and SoftHSM. */

import assert from 'node:assert/strict'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fetchNode, NODE_RELEASES } from '../../deploy/build/node-release.ts'
import { type DebianHost, debianRoots, openHost } from '../support/hosts/debian-root.ts'
import { made } from '../support/hosts/made.ts'
import { startPostgres } from '../support/hosts/packaged-service.ts'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const NODE = '/opt/node'

/** Protocol and formats, a flow over HTTP, the key in a token, the command line. */
const RING = ['unit/shared', 'acme/orders', 'acme/issuance', 'hsm/signing', 'hsm/library', 'cli/keys']

/** As root of the host: peer authentication takes its name. */
const POSTGRES = { host: '/run/postgresql', port: 5432, user: 'root', database: 'postgres' }

describe('on Node.js 24 in Debian 13', debianRoots, () => {
  let host: DebianHost
  before(async () => {
    const release = NODE_RELEASES[24]
    const node = await made('node-24', release, (folder) => fetchNode(release, folder))
    host = await openHost('trixie', { [node]: NODE, [ROOT]: ROOT })
    await startPostgres(host)
    await host.run('cd / && runuser -u postgres -- createuser --superuser root')
  })
  after(() => host?.end())

  test('a short ring of the tests passes', async (t) => {
    const run = `cd ${ROOT} && ${NODE}/node compiled/test/run.js ${RING.join(' ')}`
    const env = {
      CHANCERY_TEST_POSTGRES: JSON.stringify(POSTGRES),
      CHANCERY_NO_INSTALL: '1',
      CHANCERY_REQUIRE_ALL: '1',
    }
    const { code, output } = await host.tryRun(run, env)
    const counts = output.trim().split('\n').at(-1) ?? ''
    t.diagnostic(`${(await host.run(`${NODE}/node --version`)).trim()}: ${counts}`)
    assert.equal(code, 0, output.slice(-8000))
    assert.match(counts, /^\d{3,} passed, 0 failed$/)
  })
})
