/** `chancery doctor` where there is no proxy, no signer of its own, and little else. */

import assert from 'node:assert/strict'
import { cpSync, mkdirSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { makeAuthority, writeSignerFiles } from '../signer/authority.ts'
import { each } from '../support/each.ts'
import { runCommand } from '../support/run-command.ts'
import { startTestService, type TestService } from '../support/service.ts'
import type { Finding } from './stand.ts'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const CLI = path.join(ROOT, 'dist/src/cli/main.js')

describe('chancery doctor, on a service that starts its signer itself', () => {
  let service: TestService
  before(async () => {
    service = await startTestService({
      fronts: 1,
      config: { challenges: { http01: { blocked_networks: ['127.0.0.0/8'] } } },
    })
  })
  after(() => service?.dispose())

  const doctor = async (cli: string, ...args: string[]): Promise<Finding[]> => {
    const config = path.join(service.folder, 'config.yaml')
    const { output } = await runCommand(process.execPath, [cli, '-c', config, 'doctor', '--json', ...args])
    return JSON.parse(output).findings
  }

  test('finds what a test does that an installation must not, and nothing else', async () => {
    const findings = await doctor(CLI)
    const isBad = ({ result }: Finding) => result === 'failure' || result === 'warning'
    const asRoot = process.getuid?.() === 0 ? ['service.user'] : []
    assert.deepEqual(each(findings.filter(isBad), 'id'), ['configuration.intended', ...asRoot, 'database.durable'])
  })

  test('finds a key in a token whose module is not compiled, and says the command', async () => {
    const token = { library: '/usr/lib/softhsm/libsofthsm2.so', token: 'ca', label: 'default', pin_file: 'pin' }
    const { config, folder } = writeSignerFiles({ default: makeAuthority() }, '', '{}', { default: token })
    const args = ['--only', 'configuration', '--signer-config', config]
    const found = async (cli: string) =>
      (await doctor(cli, ...args)).filter(({ id }) => id === 'configuration.token-module')
    try {
      assert.deepEqual(
        (await found(CLI)).map(({ result }) => result),
        ['ok'],
      )
      const [missing] = await found(installedWithoutScripts(path.join(folder, 'copy')))
      assert.deepEqual(
        [missing?.result, missing?.mend],
        ['failure', 'with a C++ compiler, make and python3 run: npm rebuild pkcs11js'],
      )
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})

/** As `npm start` installs: no package has been compiled. @returns its command line */
function installedWithoutScripts(copy: string): string {
  const compiled = new Set(['graphene-pk11', 'pkcs11js'])
  mkdirSync(path.join(copy, 'node_modules'), { recursive: true })
  for (const name of ['package.json', 'dist', ...[...compiled].map((one) => path.join('node_modules', one))])
    cpSync(path.join(ROOT, name), path.join(copy, name), { recursive: true })
  rmSync(path.join(copy, 'node_modules/pkcs11js/build'), { recursive: true })
  for (const name of readdirSync(path.join(ROOT, 'node_modules')))
    if (!compiled.has(name)) symlinkSync(path.join(ROOT, 'node_modules', name), path.join(copy, 'node_modules', name))
  return path.join(copy, 'dist/src/cli/main.js')
}
