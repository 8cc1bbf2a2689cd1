/** The Debian packages on Debian 12 and 13: installed, upgraded, taken back, removed. */

import assert from 'node:assert/strict'
import { mkdirSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { startResponder } from '../support/acme-client.ts'
import { testCa } from '../support/ca.ts'
import { type DebianHost, type DebianRelease, debianBase, debianRoots, openHost } from '../support/debian-root.ts'
import { freePort } from '../support/free-port.ts'
import {
  AS_SERVICE,
  configureService,
  configureSigner,
  runningRelease,
  type ServicePlace,
  startDatabase,
  startPostgres,
  startUnit,
  untilReady,
} from '../support/packaged-service.ts'
import { lintian, nodePackage, programPackages } from '../support/packages.ts'
import { pageBlock } from '../support/page-blocks.ts'
import { haproxy, makeCertificate } from '../support/proxies.ts'
import { EXTERNAL_URL, endLanes, type Lane, startLane } from '../support/proxy-flows.ts'
import { requireAll, requireCommand } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'
import { FLOWS } from '../support/steady-flows.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const PACKAGES = '/packages'
const NODEJS = '/nodejs'

describe('the Debian packages', { ...requireAll(debianRoots, requireCommand('dh'), requireCommand('lintian')) }, () => {
  let folder: string
  /** By major version. */
  let nodejs: Record<'20' | '24', string>
  before(async () => {
    const [programs, node20, node24] = await Promise.all([
      programPackages(),
      nodePackage('20'),
      nodePackage('24'),
      debianBase('bookworm'),
      debianBase('trixie'),
    ])
    folder = programs
    nodejs = { 20: node20, 24: node24 }
  })

  const nameIn = (at: string, name: string, part = '') => {
    const found = readdirSync(at).find((file) => file.startsWith(`${name}_`) && file.includes(part))
    assert.ok(found, `${name} ${part}`)
    return found
  }
  const fileOf = (name: string, revision: number) => `${PACKAGES}/${nameIn(folder, name, `-${revision}_`)}`
  const programs = (revision: number) => ['chancery', 'chancery-signer'].map((name) => fileOf(name, revision))
  const node = (major: '20' | '24') => `${NODEJS}/${nameIn(nodejs[major], 'chancery-nodejs')}`
  const openWith = (release: DebianRelease, major?: '20' | '24', more: Record<string, string> = {}) =>
    openHost(release, { [folder]: PACKAGES, ...(major && { [nodejs[major]]: NODEJS }), ...more })
  const install = (host: DebianHost, files: readonly string[], env = {}) =>
    host.tryRun(`apt-get install -y --no-install-recommends --allow-downgrades ${files.join(' ')}`, env)
  const mustInstall = async (host: DebianHost, files: readonly string[], env = {}) => {
    const { code, output } = await install(host, files, env)
    assert.equal(code, 0, output)
    return output.replaceAll('\r', '')
  }

  test('lintian finds no error', async () => {
    const files = ['chancery', 'chancery-signer'].map((name) => path.join(folder, nameIn(folder, name, '-2_')))
    for (const file of [...files, path.join(nodejs[24], nameIn(nodejs[24], 'chancery-nodejs'))])
      assert.doesNotMatch(await lintian(file), /^E:/m)
  })

  test('service and signer take less than 60 MB beside Node.js', async () => {
    const sizes = await Promise.all(
      ['chancery', 'chancery-signer'].map((name) =>
        mustRun('dpkg-deb', ['--field', path.join(folder, nameIn(folder, name, '-2_')), 'Installed-Size']),
      ),
    )
    const kilobytes = sizes.reduce((sum, size) => sum + Number(size), 0)
    assert.ok(kilobytes < 60_000, `${kilobytes} kB`)
  })

  const SYSTEMS = [
    ['Debian 12 with chancery-nodejs 20', 'bookworm', '20'],
    ['Debian 13 with its own Node.js', 'trixie', undefined],
  ] as const
  for (const [title, release, major] of SYSTEMS)
    test(`${title}: installed, upgraded, taken back, removed and purged`, async () => {
      const host = await openWith(release, major)
      const all = (revision: number) => [...programs(revision), ...(major ? [node(major)] : [])]
      try {
        await mustInstall(host, all(1))
        assert.match(
          await host.run('chancery --version && chancery-signer --version'),
          /^chancery, .*\nchancery-signer, /,
        )
        await runsOn(host, 'v20')
        assert.equal(await host.run('systemctl is-enabled chancery chancery-signer'), 'enabled\nenabled\n')
        assert.match(await host.run('id chancery'), /\(chancery-signer\)/)
        await host.run(
          'test -s /usr/share/man/man1/chancery.1.gz && test -s /usr/share/bash-completion/completions/chancery',
        )

        await mustInstall(host, all(2))
        assert.match(
          await host.run('readlink /usr/lib/chancery/current /usr/lib/chancery-signer/current'),
          /(releases\/\S+-2\n){2}/,
        )
        assert.match(await host.run('ls /usr/lib/chancery/releases'), /^\S+-2\n$/)

        const refused = await install(host, programs(1))
        assert.notEqual(refused.code, 0)
        assert.match(refused.output, /-1 is older: refused[\s\S]*db rollback-point/)
        assert.match(await host.run('dpkg-query -W chancery && chancery --version'), /-2\nchancery/)
        await host.run(
          `cd ${PACKAGES} && ${pageBlock('docs/operations/install.md', 'downgrade').replace('apt-get install', 'apt-get install -y')}`,
        )
        assert.match(await host.run('readlink /usr/lib/chancery/current'), /-1\n$/)

        await removal(host)
      } finally {
        await host.end()
      }
    })

  test('a postinst that is killed leaves no part of a release under its name, and the next run makes it whole', async () => {
    const host = await openWith('trixie')
    try {
      await mustInstall(host, programs(1))
      for (const name of ['chancery', 'chancery-signer'])
        for (const after of ['0.02', '0.05', '0.1', '0.2', '0.3']) {
          await host.run(`${UNCONFIGURED(name)}; ${KILLED(after)} || true`)
          await host.run('dpkg --configure -a')
          await host.run(`diff -rq --no-dereference /usr/lib/${name}/installed /usr/lib/${name}/current/`)
          assert.match(await host.run(`ls /usr/lib/${name}/releases`), /^\S+-1\n$/, after)
        }
      // As a postinst of the first release left it.
      await host.run('find /usr/lib/chancery/current/ -name "*.js" -type f | head -200 | xargs rm')
      await host.run('dpkg-reconfigure chancery && chancery --version')
      await host.run('diff -rq --no-dereference /usr/lib/chancery/installed /usr/lib/chancery/current/')
    } finally {
      await host.end()
    }
  })

  test('an installation keeps the owners and modes that the operator has given', async () => {
    const host = await openWith('trixie')
    try {
      await mustInstall(host, programs(1))
      assert.equal(await host.run('stat -c "%a %U" /etc/chancery'), '755 root\n')
      for (const name of ['config.yaml', 'signer.pin']) await host.write(`/etc/chancery/${name}`, '')
      await host.run('chown chancery-signer: /etc/chancery/signer.pin && chown chancery: /etc/chancery/config.yaml')
      await host.run('chmod 750 /etc/chancery && chmod 600 /etc/chancery/*')
      const rights = 'stat -c "%n %a %U:%G" /etc/chancery /etc/chancery/*'
      const before = await host.run(rights)
      await mustInstall(host, programs(2))
      await host.run('systemd-tmpfiles --create')
      assert.equal(await host.run(rights), before)
    } finally {
      await host.end()
    }
  })

  test('purge keeps a configuration whose secret is the key of the audit log, and says so', async () => {
    const host = await openWith('trixie')
    const config = '/etc/chancery/config.yaml'
    try {
      for (const [more, stays] of [
        ['', true],
        ['  audit_key_file: /etc/chancery/audit.key\n', false],
      ] as const) {
        await mustInstall(host, programs(1))
        await host.write(config, `admin_api:\n  token_secret: "a secret of nobody"\n${more}`)
        const said = await host.run('apt-get purge -y chancery')
        assert.equal(/config\.yaml stays: its token_secret is the key of the audit log/.test(said), stays)
        assert.equal((await host.tryRun(`test -e ${config}`)).code, stays ? 0 : 1)
      }
    } finally {
      await host.end()
    }
  })

  const FIRST_CERTIFICATES = [
    ['Debian 12 with chancery-nodejs 20, the key in a token', 'bookworm', '20', 'key: token'],
    ['Debian 13 with chancery-nodejs 24 beside its own, the key in a file', 'trixie', '24', 'key: file'],
  ] as const
  for (const [title, release, major, key] of FIRST_CERTIFICATES)
    test(`${title}: from the packages to a first certificate by \`chancery setup\``, async (t) => {
      const host = await openWith(release, major)
      try {
        const began = Date.now()
        await mustInstall(host, [node(major), ...programs(1)])
        await runsOn(host, `v${major}`)
        await startPostgres(host)
        await host.run('echo 127.0.0.1 acme.corp.example >>/etc/hosts')
        const [port, adminPort, crlPort] = [await freePort(), await freePort(), await freePort()]
        const answers = [
          `url: https://acme.corp.example:${port}`,
          'tls: own',
          `port: ${port}`,
          `admin_port: ${adminPort}`,
          'admin_email: ops@corp.example',
          `crl_url: http://acme.corp.example:${crlPort}`,
          `database_port: ${(await host.run('pg_lsclusters -h')).split(/\s+/)[2]}`,
          key,
        ]
        await host.write('/root/answers.yaml', answers.join('\n'))
        const said = await host.run('chancery setup --answers /root/answers.yaml --unattended')
        assert.match(said, /Certificate [0-9a-f]+ for acme\.corp\.example was\s+issued and revoked/)
        t.diagnostic(`${Math.round((Date.now() - began) / 1000)} s from the packages to the certificate`)
        assert.match(await host.run('chancery -c /etc/chancery/config.yaml certificates list'), /acme\.corp\.example/)
        await host.run(pageBlock('docs/operations/install.md', 'start'))
      } finally {
        await host.end()
      }
    })

  async function runsOn(host: DebianHost, major: string): Promise<void> {
    const said = await host.run('sh -x /usr/bin/chancery --version 2>&1')
    const [, node = ''] = /exec (\S+)/.exec(said) ?? []
    assert.match(await host.run(`${node} --version`), new RegExp(`^${major}\\.`))
  }

  /** Removal keeps all that is not a program; purge keeps what no backup may hold. */
  async function removal(host: DebianHost): Promise<void> {
    const files = ['config.yaml', 'signer.yaml', 'service.env', 'issuer.key', 'signer.secret']
    for (const name of files) await host.write(`/etc/chancery/${name}`, 'of the operator')
    await host.write('/var/lib/chancery-signer/audit.jsonl', 'of the auditor')
    // As `chancery setup` leaves them.
    await host.write('/root/chancery-root/key.pem', 'of the root')
    await host.write('/root/chancery-secrets.txt', 'of the administrator')
    await host.run('apt-get remove -y chancery chancery-signer')
    const stays = await host.run('ls /etc/chancery /var/lib/chancery-signer')
    for (const name of [...files, 'audit.jsonl']) assert.match(stays, new RegExp(`^${name}$`, 'm'))
    await host.run('! test -e /usr/lib/chancery && ! test -e /usr/lib/chancery-signer && ! command -v chancery')

    const said = await host.run('apt-get purge -y chancery chancery-signer')
    assert.match(said, /chancery-signer: \/etc\/chancery stays, with: issuer.key signer.secret/)
    assert.match(said, /\/var\/lib\/chancery-signer stays, with: audit.jsonl/)
    for (const left of ['chancery-root/key.pem', 'chancery-secrets.txt'])
      assert.ok(said.includes(`chancery: stays, with secrets: /root/${left}`), left)
    assert.equal(
      await host.run('ls /etc/chancery /var/lib/chancery-signer | grep -v :'),
      'issuer.key\nsigner.secret\n\naudit.jsonl\n',
    )
    assert.match(await host.run('id chancery-signer'), /uid/)
  }

  test('Debian 12 refuses the Node.js that has no HTTP library there', async () => {
    const host = await openWith('bookworm', '24')
    try {
      const { code, output } = await install(host, [node('24')])
      assert.notEqual(code, 0)
      assert.match(output, /Depends: libc6 \(>= 2\.38\)/)
    } finally {
      await host.end()
    }
  })

  describe('two hosts behind HAProxy', requireCommand('haproxy'), () => {
    let scene: Scene
    const cleanups: (() => unknown)[] = []
    before(async () => {
      scene = await twoHosts(cleanups)
    })
    after(async () => {
      for (const cleanup of cleanups.toReversed()) await cleanup()
    })

    test(`an upgrade of one after the other loses no request of ${FLOWS} flows`, async (t) => {
      const { hosts, places, lane } = scene
      let flows = 0
      const goOn = async () => {
        flows += Math.ceil(FLOWS / 3)
        await lane.flows.reached(flows)
      }
      await goOn()
      for (const [which, host] of hosts.entries()) {
        await mustInstall(host, which === 0 ? programs(2) : [fileOf('chancery', 2)])
        assert.match((await runningRelease(host, 'chancery')) ?? '', /-2$/)
        await untilReady(host, places[which]!)
        await until('HAProxy uses both', () => haproxy.usesAll(scene.folder, lane.ports))
        await goOn()
      }
      assert.match((await runningRelease(hosts[0]!, 'chancery-signer')) ?? '', /-2$/)
      await endLanes([lane], (line) => t.diagnostic(`an upgrade of two packages behind ${line}`))
    })

    test('a release that needs migrations is installed, and the host stays at the one before until they are done', async () => {
      const { hosts, places } = scene
      const [host, place] = [hosts[1]!, places[1]!]
      const said = await mustInstall(host, [fileOf('chancery', 3)])
      assert.match(said, /-3 is installed, but this host stays at \S+-2, because \S+-3 says:[\s\S]*9001_further\.sql/)
      assert.match((await runningRelease(host, 'chancery')) ?? '', /-2$/)
      await host.run('systemctl restart chancery')
      await untilReady(host, place)
      assert.match((await runningRelease(host, 'chancery')) ?? '', /-2$/)

      const commands = /As root:\n([\s\S]*?)dpkg-reconfigure/i.exec(said)?.[1] ?? ''
      assert.match(await host.run(`export DB_USER=chancery\n${commands}`), /1 migration\(s\) applied/)
      await host.run('dpkg-reconfigure chancery')
      await untilReady(host, place)
      assert.match((await runningRelease(host, 'chancery')) ?? '', /-3$/)
      assert.match(await host.run('ls /usr/lib/chancery/releases'), /^\S+-3\n$/)
    })
  })

  interface Scene {
    hosts: DebianHost[]
    places: ServicePlace[]
    lane: Lane
    folder: string
  }

  /** Database and signer are on the first; the second reaches them by their sockets. */
  async function twoHosts(cleanups: (() => unknown)[]): Promise<Scene> {
    const at = temporaryFolder()
    makeCertificate(at)
    const sockets: Record<string, string> = {}
    for (const name of ['postgresql', 'chancery-signer']) {
      mkdirSync(path.join(at, name))
      sockets[path.join(at, name)] = `/run/${name}`
    }
    const ca = await testCa(path.join(at, 'ca'))
    const http01Port = await freePort()
    const responder = await startResponder(http01Port)
    cleanups.push(() => responder.close())
    const hosts: DebianHost[] = []
    const places: ServicePlace[] = []
    for (const which of [0, 1]) {
      const host = await openWith('trixie', undefined, sockets)
      cleanups.push(() => host.end())
      hosts.push(host)
      const place = { port: await freePort(), http01Port, externalUrl: EXTERNAL_URL }
      places.push(place)
      await mustInstall(host, which === 0 ? programs(1) : [fileOf('chancery', 1)])
      if (which === 0) {
        await configureSigner(host, ca)
        await startDatabase(host)
        await startUnit(host, 'chancery-signer')
      }
      await configureService(host, place)
      if (which === 0) await host.run(`${AS_SERVICE} chancery -c /etc/chancery/config.yaml db migrate`)
      await startUnit(host, 'chancery')
      await untilReady(host, place)
    }
    const lane = await startLane('HAProxy', haproxy, { folder: at, instances: places, responder, cleanups })
    return { hosts, places, lane, folder: at }
  }
})

/** As if the package had only been unpacked, in an upgrade: its files have other inodes, and the release of before is there. */
const UNCONFIGURED = (name: string) => `cd /usr/lib/${name}
cp -a installed installed.other && rm -rf installed && mv installed.other installed && echo "$(date +%N)" >installed/marker
sed -i '/^Package: ${name}$/,/^$/s/^Status: .*/Status: install ok half-configured/' /var/lib/dpkg/status`

/** The whole group of processes, as a power cut does. */
const KILLED = (seconds: string) => `timeout --signal=KILL ${seconds} dpkg --configure -a`
