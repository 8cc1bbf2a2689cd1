/** The Debian packages on Debian 12 and 13: installed, upgraded, taken back, removed. */

import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import {
  type DebianBase,
  type DebianHost,
  type DebianRelease,
  debianRoots,
  makeBase,
  openHost,
} from '../support/debian-root.ts'
import { requireAll, requireCommand } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'

const PACKAGE = path.resolve(import.meta.dirname, '../../deploy/build/main.js')
const PACKAGES = '/packages'

/** Quickly packed: how small they are is another test's. */
const QUICK = { DPKG_DEB_COMPRESSOR_TYPE: 'gzip', DPKG_DEB_COMPRESSOR_LEVEL: '1' }

const folder = mkdtempSync(path.join(tmpdir(), 'chancery-packages-'))
const build = (...args: string[]) => mustRun(process.execPath, [PACKAGE, ...args, folder], { env: QUICK })

describe('the Debian packages', { ...requireAll(debianRoots, requireCommand('dh'), requireCommand('lintian')) }, () => {
  const bases = {} as Record<DebianRelease, DebianBase>
  before(async () => {
    const makes = (['bookworm', 'trixie'] as const).map(async (release) => {
      bases[release] = await makeBase(release, release === 'trixie' ? ['nodejs'] : [])
    })
    const builds = async () => {
      await build('deb')
      await build('deb', '--revision', '2')
      await build('deb-nodejs', '--node', '20')
      await build('deb-nodejs', '--node', '24')
    }
    await Promise.all([...makes, builds()])
  })
  after(() => {
    for (const base of Object.values(bases)) base.remove()
    rmSync(folder, { recursive: true })
  })

  const fileOf = (name: string, version: RegExp | string) => {
    const found = readdirSync(folder).find((file) => file.startsWith(`${name}_`) && file.match(version))
    assert.ok(found, `${name} ${version}`)
    return `${PACKAGES}/${found}`
  }
  const programs = (revision: number) => ['chancery', 'chancery-signer'].map((name) => fileOf(name, `-${revision}_`))
  const install = (host: DebianHost, files: readonly string[], env = {}) =>
    host.tryRun(`apt-get install -y --no-install-recommends --allow-downgrades ${files.join(' ')}`, env)
  const mustInstall = async (host: DebianHost, files: readonly string[], env = {}) => {
    const { code, output } = await install(host, files, env)
    assert.equal(code, 0, output)
    return output
  }

  test('lintian finds no error', async () => {
    const names = readdirSync(folder).map((name) => path.join(folder, name))
    const said = await mustRun('lintian', ['--allow-root', '--fail-on', 'error', ...names])
    assert.doesNotMatch(said, /^E:/m)
  })

  test('service and signer take less than 60 MB beside Node.js', async () => {
    const sizes = await Promise.all(
      ['chancery', 'chancery-signer'].map((name) =>
        mustRun('dpkg-deb', ['--field', path.join(folder, path.basename(fileOf(name, '-1_'))), 'Installed-Size']),
      ),
    )
    const kilobytes = sizes.reduce((sum, size) => sum + Number(size), 0)
    assert.ok(kilobytes < 60_000, `${kilobytes} kB`)
  })

  const SYSTEMS = [
    ['Debian 12 with chancery-nodejs 20', 'bookworm', 'chancery-nodejs_20', 'v20'],
    ['Debian 13 with its own Node.js', 'trixie', undefined, 'v20'],
    ['Debian 13 with chancery-nodejs 24', 'trixie', 'chancery-nodejs_24', 'v24'],
  ] as const
  for (const [title, release, nodejs, major] of SYSTEMS)
    test(`${title}: installed, upgraded, taken back, removed and purged`, async () => {
      const host = await openHost(bases[release], { [folder]: PACKAGES })
      const all = (revision: number) => [
        ...programs(revision),
        ...(nodejs ? [fileOf('chancery-nodejs', new RegExp(nodejs))] : []),
      ]
      try {
        await mustInstall(host, all(1))
        assert.match(
          await host.run('chancery --version && chancery-signer --version'),
          /^chancery, .*\nchancery-signer, /,
        )
        await runsOn(host, major)
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
        await mustInstall(host, programs(1), { CHANCERY_DOWNGRADE: 'yes' })
        assert.match(await host.run('readlink /usr/lib/chancery/current'), /-1\n$/)

        await removal(host)
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
    await host.run('apt-get remove -y chancery chancery-signer')
    const stays = await host.run('ls /etc/chancery /var/lib/chancery-signer')
    for (const name of [...files, 'audit.jsonl']) assert.match(stays, new RegExp(`^${name}$`, 'm'))
    await host.run('! test -e /usr/lib/chancery && ! test -e /usr/lib/chancery-signer && ! command -v chancery')

    const said = await host.run('apt-get purge -y chancery chancery-signer')
    assert.match(said, /chancery-signer: \/etc\/chancery stays, with: issuer.key signer.secret/)
    assert.match(said, /\/var\/lib\/chancery-signer stays, with: audit.jsonl/)
    assert.equal(
      await host.run('ls /etc/chancery /var/lib/chancery-signer | grep -v :'),
      'issuer.key\nsigner.secret\n\naudit.jsonl\n',
    )
    assert.match(await host.run('id chancery-signer'), /uid/)
  }

  test('Debian 12 refuses the Node.js that has no HTTP library there', async () => {
    const host = await openHost(bases.bookworm, { [folder]: PACKAGES })
    try {
      const { code, output } = await install(host, [fileOf('chancery-nodejs', /_24/)])
      assert.notEqual(code, 0)
      assert.match(output, /Depends: libc6 \(>= 2\.38\)/)
    } finally {
      await host.end()
    }
  })
})
