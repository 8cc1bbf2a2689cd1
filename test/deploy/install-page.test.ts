/** docs/operations/install.md as it stands there, in fresh roots of Debian: from a checkout to the packages, and from these to the programs. */

import assert from 'node:assert/strict'
import path from 'node:path'
import { describe, test } from 'node:test'
import { type DebianHost, type DebianRelease, debianRoots, openHost } from '../support/debian-root.ts'
import { pageBlock } from '../support/page-blocks.ts'
import { mustRun } from '../support/run-command.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const PAGE = 'docs/operations/install.md'
const ROOT = path.resolve(import.meta.dirname, '../../..')
const CHECKOUT = '/root/chancery'
const PACKAGES = '/packages'
/** By release: the blocks that build, and that which installs. */
const RELEASES = {
  bookworm: { builds: ['build-on-debian-12', 'build-nodejs'], installs: 'install-on-debian-12' },
  trixie: { builds: ['build-on-debian-13'], installs: 'install-on-debian-13' },
} as const satisfies Record<DebianRelease, { builds: readonly string[]; installs: string }>

const folder = temporaryFolder()
const packagesOf = (release: DebianRelease) => path.join(folder, release, 'build/packages')

/** Blocks, typed one after the other in one shell. Nobody answers apt, and this machine's authorities sign its registry. */
async function type(host: DebianHost, at: string, names: readonly string[]): Promise<string> {
  return typeLines(host, at, names.map((name) => pageBlock(PAGE, name)).join('\n'))
}

async function typeLines(host: DebianHost, at: string, lines: string): Promise<string> {
  await host.write('/etc/apt/apt.conf.d/90unattended', 'APT::Get::Assume-Yes "true";\n')
  const env = {
    HOME: '/root',
    NODE_EXTRA_CA_CERTS: '/machine/ca-certificates.crt',
    npm_config_cafile: '/machine/ca-certificates.crt',
  }
  return host.run(`set -eu\ncd ${at}\n${lines}`, env)
}

/** As docs/operations/deploy.md and signer.md have it, with the packages that the build has brought. */
async function installFromCheckout(host: DebianHost): Promise<void> {
  const from = { '<this repository>': CHECKOUT }
  for (const name of ['programs', 'second-release'])
    await typeLines(host, '/', pageBlock('docs/operations/deploy.md', name, from))
  await typeLines(host, '/opt/chancery', pageBlock('docs/operations/signer.md', 'install'))
  for (const folder of ['/opt/chancery', '/opt/chancery-2'])
    assert.match(await host.run(`node ${folder}/dist/src/cli/main.js --version`), /^chancery, /)
}

describe('the page of the packages', debianRoots, () => {
  for (const [release, { builds, installs }] of Object.entries(RELEASES) as [
    DebianRelease,
    (typeof RELEASES)[DebianRelease],
  ][]) {
    const machine = { '/etc/ssl/certs': '/machine' }
    test(`its lines build the packages on ${release}`, async () => {
      await mustRun('git', ['clone', '--quiet', '--no-hardlinks', ROOT, path.join(folder, release)])
      const host = await openHost(release, { ...machine, [path.join(folder, release)]: CHECKOUT })
      try {
        await type(host, CHECKOUT, builds)
        assert.match(await host.run(`ls ${CHECKOUT}/build/packages`), /^chancery-signer_1\.0\.0-1_amd64\.deb$/m)
        if (release === 'trixie') await installFromCheckout(host)
      } finally {
        await host.end()
      }
    })

    test(`its lines install them on ${release}`, async () => {
      const host = await openHost(release, { ...machine, [packagesOf(release)]: PACKAGES })
      try {
        assert.match(await type(host, PACKAGES, [installs]), /^chancery, /m)
      } finally {
        await host.end()
      }
    })
  }
})
