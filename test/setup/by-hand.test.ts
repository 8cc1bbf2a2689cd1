/** docs/operations/deploy.md and signer.md, typed as they stand there on a host with PostgreSQL and nothing else. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parse, stringify } from 'yaml'
import {
  CHECKOUT,
  openPrivateHost,
  type PrivateHost,
  requirePrivateHost,
  startPostgres,
} from '../support/hosts/private-host.ts'
import { PIN, SOFTHSM_LIBRARY } from '../support/hosts/softhsm.ts'
import { pageBlock } from '../support/page-blocks.ts'
import { requireAll, requireCommand } from '../support/requirements.ts'
import { until } from '../support/until.ts'

const DEPLOY = 'docs/operations/deploy.md'
const SIGNER = 'docs/operations/signer.md'
const EXAMPLE = path.resolve(import.meta.dirname, '../../../signer/signer.example.yaml')
const PASSPHRASE = 'correct horse battery'

describe('an installation by hand', requireAll(requirePrivateHost(), requireCommand('softhsm2-util')), () => {
  let host: PrivateHost
  before(async () => {
    host = await openPrivateHost({ hosts: ['acme.corp.example'], systemd: false })
    await startPostgres(host)
    // As the clone of the page would be.
    await sh(`for release in 1 2; do mkdir ${CHECKOUT}-$release && mount --bind ${CHECKOUT} ${CHECKOUT}-$release; done
      umount ${CHECKOUT} && rmdir ${CHECKOUT} && ln -s chancery-1 ${CHECKOUT} && mkdir -p /usr/local/bin`)
  })
  after(() => host.close())

  async function sh(text: string, ...typing: string[]): Promise<string> {
    const environment = ['env', 'PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME=/root']
    const { code, output } = await host.run(...environment, ...typing, 'sh', '-euc', text)
    assert.equal(code, 0, `${text}\n${output}`)
    return output
  }
  /** On a terminal, where somebody types an answer to each of these questions. */
  function shOnTerminal(text: string, ...dialogue: (readonly [seen: string, typed: string])[]): Promise<string> {
    host.write('/root/dialogue.json', JSON.stringify(dialogue))
    return sh(text, 'python3', `${CHECKOUT}/test/fixtures/typed-answers.py`, '/root/dialogue.json')
  }
  /** The last line is a program that goes on. */
  const leaving = (block: string, log: string) => block.trimEnd().replace(/\n(.*)$/, `\n$1 >${log} 2>&1 &`)

  test('begins with users, folders, a secret and an issuer', async () => {
    for (const block of ['users', 'secret', 'trial-issuer']) await sh(pageBlock(DEPLOY, block))
    assert.equal(await host.must('stat', '-c', '%a %U %G', '/etc/chancery/signer.secret'), '640 root chancery-signer\n')
  })

  test('has a signer with the issuer `default` of the example', async () => {
    const example = parse(readFileSync(EXAMPLE, 'utf8'))
    const [issuer] = example.issuers
    delete issuer.key.passphrase_env
    issuer.policy.permitted = { dns: ['corp.example'] }
    delete issuer.policy.excluded
    host.write('/etc/chancery/signer.yaml', stringify({ ...example, issuers: [issuer] }), 0o644)
    await sh(leaving(pageBlock(DEPLOY, 'signer'), '/root/signer.log'))
    await until('the signer is ready', () => host.read('/root/signer.log').includes('signer ready'))
  })

  test('has a database and a service with the smallest configuration', async () => {
    await sh(pageBlock(DEPLOY, 'database'))
    host.write('/etc/chancery/config.yaml', pageBlock(DEPLOY, '/etc/chancery/config.yaml'), 0o644)
    await sh(leaving(pageBlock(DEPLOY, 'service'), '/root/service.log'))
    await until('the service is ready', () => host.read('/root/service.log').includes('service ready'))
    await sh('curl -fsS http://127.0.0.1:8443/readyz')
  })

  test('looks at an upgrade and changes over', async () => {
    assert.match(await sh(pageBlock(DEPLOY, 'look')), /current|no migration|0 migration/i)
    await sh(pageBlock(DEPLOY, 'change-over'))
    assert.equal(await host.must('readlink', CHECKOUT), 'chancery-2\n')
  })

  test('has a user for a tunnel', async () => {
    await sh(pageBlock(DEPLOY, 'tunnel-user'))
  })

  test('has an audit chain that is whole', async () => {
    await sh(pageBlock(SIGNER, 'verify'))
  })

  test('makes a key in a token, and has the root sign its request and publish lists', async () => {
    await sh(
      `mkdir -p /root/ca /var/lib/softhsm/tokens && softhsm2-util --init-token --free --label ca --so-pin 99887766 --pin ${PIN}`,
    )
    const at = (block: string, values: Record<string, string> = {}) =>
      `cd /root/ca\n${pageBlock(SIGNER, block, values)}`
    await shOnTerminal(at('keygen', { '/usr/lib/vendor/libpkcs11.so': SOFTHSM_LIBRARY }), ['PIN', PIN])
    await shOnTerminal(
      'cd /root/ca\nchancery-signer keygen --subject "CN=Example Root" --root-days 7300 --out root --passphrase-prompt',
      ['assphrase', PASSPHRASE],
      ['again', PASSPHRASE],
    )
    await shOnTerminal(at('sign-request'), ['assphrase', PASSPHRASE])
    await sh('cd /root/ca && openssl verify -x509_strict -CAfile root/root.pem issuer.pem')
    await shOnTerminal(at('sign-crl'), ['assphrase', PASSPHRASE], ['assphrase', PASSPHRASE])
    assert.match(await sh('openssl crl -inform der -in /root/ca/root-2.crl -noout -text'), /Key Compromise/)
    await sh('cd /root/ca && openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out old.pem')
    await shOnTerminal(at('encrypt'), ['ncryption Password', PASSPHRASE], ['ncryption Password', PASSPHRASE])
    assert.match(host.read('/root/ca/key.pem'), /ENCRYPTED/)
  })
})
