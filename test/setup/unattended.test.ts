/** `chancery setup --unattended` on a copy of this machine: from nothing to a certificate, by every way to an issuer. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { requirePrivateHost } from '../support/hosts/private-host.ts'
import { ANSWERS_FILE, answersFile, openSetupHost, type SetupHost } from '../support/hosts/setup-run.ts'
import { words } from '../support/words.ts'

const FILES = 'sha256sum /etc/chancery/* /root/chancery-secrets.txt'

describe('a key in a file', requirePrivateHost(), () => {
  let host: SetupHost
  before(async () => {
    host = await openSetupHost()
    host.write(ANSWERS_FILE, answersFile('root_passphrase: correct horse battery\n'))
  })
  after(() => host.close())

  test('a missing answer is an error that names its key, and nothing is changed', async () => {
    host.write('/root/few.yaml', 'url: https://acme.corp.example\n')
    const { code, output } = await host.setUp('--unattended', '--answers', '/root/few.yaml')
    assert.equal(code, 1)
    assert.match(output, /admin_email: is missing/)
    assert.equal((await host.run('test', '-e', '/etc/chancery')).code, 1)
  })

  test('a dry run shows plan and files without secrets, and changes nothing', async () => {
    const { code, output } = await host.setUp('--unattended', '--answers', ANSWERS_FILE, '--dry-run')
    assert.equal(code, 0, output)
    assert.match(output, /Make a root in \/root\/chancery-root, its key encrypted/)
    assert.match(output, /external_url: "https:\/\/acme\.corp\.example"/)
    assert.match(output, /token_secret: "…"/)
    assert.doesNotMatch(output, /correct horse/)
    assert.equal((await host.run('test', '-e', '/etc/chancery')).code, 1)
  })

  test('one run leads to a first certificate, and to nothing that was validated where it was not', async (t) => {
    const began = Date.now()
    const { code, output } = await host.setUp('--unattended', '--answers', ANSWERS_FILE)
    assert.equal(code, 0, output)
    // Two minutes is the aim; a machine that is busy may miss it.
    t.diagnostic(`${((Date.now() - began) / 1000).toFixed(1)} s`)
    assert.match(output, /Certificate [0-9a-f]+ for acme\.corp\.example was\s+issued for your proxy/)
    assert.match(output, /approved by a credential that is revoked now, and not\s+validated/)
    assert.match(await host.chancery('certificates', 'list'), /acme\.corp\.example/)
  })

  test("root's commands and the doctor reach a database that knows the service's user alone", async () => {
    const main = '/opt/chancery/dist/src/cli/main.js'
    const asRoot = (...words: string[]) => host.run('node', main, '-c', '/etc/chancery/config.yaml', ...words)
    const listed = await asRoot('certificates', 'list')
    assert.equal(listed.code, 0, listed.output)
    assert.match(listed.output, /acme\.corp\.example/)
    const seen = await asRoot('doctor', '--only', 'database')
    assert.equal(seen.code, 0, seen.output)
    assert.match(seen.output, /ok {7}database\.reachable/)
    assert.equal(await host.must('sh', '-c', 'ls -d /tmp/chancery-peer-* 2>/dev/null | wc -l'), '0\n')
  })

  test('passwords are in a file of root alone, and not in the output', async () => {
    const secrets = host.read('/root/chancery-secrets.txt')
    assert.match(secrets, /^password: \S{20}$/m)
    assert.match(secrets, /^hmac_key: \S{43}$/m)
    assert.equal(await host.must('stat', '-c', '%a %U', '/root/chancery-secrets.txt'), '600 root\n')
  })

  test("keys are their user's alone", async () => {
    const rights = (file: string) => host.must('stat', '-c', '%a %U %G', file)
    assert.equal(await rights('/etc/chancery/issuer.key'), '600 chancery-signer chancery-signer\n')
    assert.equal(await rights('/etc/chancery/eab.key'), '600 chancery chancery\n')
    assert.equal(await rights('/etc/chancery/config.yaml'), '640 root chancery\n')
    assert.equal(await rights('/root/chancery-root/key.pem'), '600 root root\n')
    assert.match(host.read('/root/chancery-root/key.pem'), /BEGIN ENCRYPTED PRIVATE KEY/)
  })

  test("the issuer's certificate names the domain that it is for", async () => {
    const text = await host.must(...words`openssl x509 -in /etc/chancery/issuer.pem -noout -ext nameConstraints`)
    assert.match(text, /DNS:corp\.example/)
  })

  test('nginx takes the example as it is; a second run gets its certificate through it, needs no answers and changes nothing', async () => {
    const before = await host.must('sh', '-c', FILES)
    host.write('/root/nginx.conf', 'events {}\nhttp { include /etc/chancery/proxy.example.conf; }\n')
    await host.must('sh', '-c', 'nginx -c /root/nginx.conf >/dev/null 2>&1')
    const { code, output } = await host.setUp('--unattended')
    assert.equal(code, 0, output)
    assert.match(output, /was\s+issued and revoked/)
    assert.doesNotMatch(output, /The proxy was not asked|… changed/)
    assert.equal(await host.must('sh', '-c', FILES), before)
    const [, ...fetchRoot] = /root {7}(curl .*)$/m.exec(output)?.[1]?.split(' ') ?? []
    await host.must('curl', ...fetchRoot)
    assert.equal(await host.must('openssl', 'x509', '-in', '/root.pem'), host.read('/etc/chancery/root.pem'))
  })

  test('a file that the operator has changed is kept; with --replace a copy of it is', async () => {
    const mine = host.read('/etc/chancery/signer.yaml').replace('max_validity_days: 398', 'max_validity_days: 100')
    host.write('/etc/chancery/signer.yaml', mine)
    await host.must('sh', '-c', 'chown root:chancery-signer /etc/chancery && chmod 750 /etc/chancery')
    const kept = await host.setUp('--unattended', '--do-not-start')
    assert.equal(kept.code, 0, kept.output)
    assert.match(kept.output, /^\+ +max_validity_days: 398$/m)
    assert.equal(host.read('/etc/chancery/signer.yaml'), mine)
    assert.equal(await host.must('stat', '-c', '%a %G', '/etc/chancery'), '750 chancery-signer\n')
    const replaced = await host.setUp('--unattended', '--do-not-start', '--replace')
    assert.equal(replaced.code, 0, replaced.output)
    assert.match(host.read('/etc/chancery/signer.yaml'), /max_validity_days: 398/)
    assert.match(await host.must('sh', '-c', 'cat /etc/chancery/signer.yaml.2*'), /max_validity_days: 100/)
  })
  test('a key of the audit log that was lost is not replaced in silence: it comes back, or the operator says so', async () => {
    await host.must('sh', '-c', 'mkdir /root/kept && mv /etc/chancery/config.yaml /etc/chancery/audit.key /root/kept/')
    const log = await host.chancerySql('SELECT count(*) FROM admin_audit_log')
    const lost = await host.setUp('--unattended')
    assert.equal(lost.code, 1, lost.output)
    assert.match(lost.output, /See that the audit log is whole … failed/)
    assert.match(lost.output, /no entry fits: the key is not the one the log was written under/)
    assert.match(lost.output, /put back the one of the backup/)
    assert.equal(await host.chancerySql('SELECT count(*) FROM admin_audit_log'), log)
    await host.must('cp', '-a', '/root/kept/audit.key', '/etc/chancery/audit.key')
    const back = await host.setUp('--unattended')
    assert.equal(back.code, 0, back.output)
    assert.match(await host.chancery('audit', 'verify'), /whole/)
    await host.must('sh', '-c', 'rm /etc/chancery/audit.key')
    const accepted = await host.setUp('--unattended', '--do-not-start', '--accept-audit-log')
    assert.equal(accepted.code, 0, accepted.output)
    const seen = await host.run(
      ...['node', '/opt/chancery/dist/src/cli/main.js', '-c', '/etc/chancery/config.yaml'],
      ...['doctor', '--only', 'database'],
    )
    assert.match(seen.output, /database\.audit/)
    assert.match(seen.output, /no entry fits|was changed, or moved, or written under another key/)
  })
})
