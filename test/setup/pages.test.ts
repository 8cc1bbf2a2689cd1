/** The command blocks of the manual, typed as they stand there on a host that `chancery setup` has made with its defaults. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { CHECKOUT, requirePrivateHost } from '../support/hosts/private-host.ts'
import { answersFile, NAME, openSetupHost, type SetupHost, setUp } from '../support/hosts/setup-run.ts'
import { pageBlock } from '../support/page-blocks.ts'
import { requireAll, requireCommand } from '../support/requirements.ts'

const PATH = 'PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
const ID = '01938c4e-…'
/** Of the machines that have certificates already; certbot has one account in a folder. */
const HOSTS = '/root/hosts'
const page = (name: string) => `docs/operations/${name}.md`

describe(
  'the pages of a host that setup made',
  requireAll(requirePrivateHost(), requireCommand('certbot'), requireCommand('nginx')),
  () => {
    let host: SetupHost
    before(async () => {
      host = await openSetupHost()
      await setUp(host, answersFile())
      const [programs = ''] = pageBlock(page('deploy'), 'users').split(/^chmod/m)
      await sh(`mkdir -p /usr/local/bin\n${programs}chmod 755 /usr/local/bin/chancery*`)
      host.write('/root/nginx.conf', 'events {}\nhttp { include /etc/chancery/proxy.example.conf; }\n')
      await sh('nginx -c /root/nginx.conf >/dev/null 2>&1')
      // The names of clients are in no DNS here; their network stands for validation.
      const printed = await sh(
        "chancery -c config.yaml eab create --kid hosts --allow '*.corp.example' --preapprove 10.0.0.0/8 --max-uses 9",
      )
      for (const name of ['www', 'mail', 'shop', 'count'])
        await sh(
          `certbot certonly --standalone --config-dir ${HOSTS} --server https://${NAME}/directory --eab-kid hosts --eab-hmac-key ${keyIn(printed)} \\
          --non-interactive --agree-tos --email ops@corp.example --no-eff-email -d ${name}.corp.example`,
        )
    })
    after(() => host.close())

    /** In the folder of the configuration, as root. @returns what it prints */
    async function sh(text: string, expected: readonly number[] = [0], folder = '/etc/chancery'): Promise<string> {
      const inside = ['env', PATH, 'HOME=/root', 'REQUESTS_CA_BUNDLE=/etc/chancery/root.pem', 'sh', '-euc']
      const { code, output } = await host.run(...inside, `cd ${folder}\n${text}`)
      assert.ok(expected.includes(code ?? -1), `${text}\nended with ${code}\n${output}`)
      return output
    }
    const type = (
      from: string,
      block: string,
      values: Record<string, string> = {},
      expected?: readonly number[],
      folder?: string,
    ) => sh(pageBlock(page(from), block, values), expected, folder)
    /** The commands of a block one by one, where what one prints is needed for the next. */
    const linesOf = (from: string, block: string, values: Record<string, string> = {}) =>
      pageBlock(page(from), block, values)
        .split(/(?<!\\)\n/)
        .filter((line) => line !== '')

    const keyIn = (printed: string) => /^hmac_key +(\S{43})$/m.exec(printed)?.[1] ?? assert.fail(printed)
    const idOf = async (words: string): Promise<string> => {
      const printed = await sh(`chancery -c config.yaml ${words} --json`)
      return /"id": ?"([0-9a-f-]{36})"/.exec(printed)?.[1] ?? assert.fail(`${words}: ${printed}`)
    }
    const keyOf = (name: string) => `${HOSTS}/live/${name}.corp.example/privkey.pem`
    const certificateOf = (name: string) => `${HOSTS}/live/${name}.corp.example/cert.pem`
    const serialOf = async (name: string) =>
      (await sh(`openssl x509 -in ${certificateOf(name)} -noout -serial`)).trim().replace('serial=', '').toLowerCase()

    test('accounts: credentials, names and tags, allowlists', async () => {
      const [create = '', register = '', revoke = ''] = linesOf('accounts', 'credential')
      await sh(register.replace('key-of-team-a', keyIn(await sh(create))))
      const id = await idOf('accounts list --eab-kid team-a')
      await type('accounts', 'names-and-tags', { [ID]: id })
      await type('accounts', 'allowlist', { [ID]: id })
      await sh(revoke)
      assert.match(
        await sh(`chancery -c config.yaml accounts show ${id}`),
        /Team A, web[\s\S]*revoked|revoked[\s\S]*Team A, web/,
      )
    })

    test('administration: a registrar, and looking things up', async () => {
      await type('administration', 'registrar')
      const looked = await type('administration', 'look-ups', {
        '0a:1b:2c': (await serialOf('www')).slice(0, 12),
        [ID]: await idOf('orders list'),
      })
      assert.match(looked, /www\.corp\.example/)
      assert.doesNotMatch(looked, /nothing was found/i)
    })

    test('administration: an incident, a key that leaked, a host that was taken over', async () => {
      await sh(`cp ${keyOf('www')} leaked.key && cp ${certificateOf('mail')} leaked.pem`)
      const [examine = '', begin = '', show = '', report = ''] = linesOf('administration', 'incident')
      const examined = await sh(examine)
      const key = /spki sha256 +([0-9a-f]{64})/.exec(examined)?.[1] ?? assert.fail(examined)
      const counted = begin
        .replace('"spki_sha256":"…"', `"spki_sha256":"${key}"`)
        .replace('--confirm-count 12', '--confirm-count 1')
      const begun = await sh(counted.replace('--tell-owners true ', ''))
      const id = /[0-9a-f]{8}-[0-9a-f-]{27}/.exec(begun)?.[0] ?? assert.fail(begun)
      for (const line of [show, report]) await sh(line.replace('ID', id))
      await type('administration', 'leaked-key')
      await type('administration', 'taken-over', { [ID]: await idOf('accounts list --eab-kid hosts') })
      const left = await sh('chancery -c config.yaml certificates list --status active')
      assert.doesNotMatch(left, /www\.corp|mail\.corp/)
      assert.match(left, /shop\.corp/)
    })

    test('backends: test certificates', async () => {
      await type('backends', 'test-sign')
    })

    test('doctor: on a terminal, for Nagios, for Prometheus', async () => {
      // What it finds is the business of its own tests.
      assert.match(await type('doctor', 'doctor', {}, [0, 1]), /\d+ ok/)
      await type('doctor', 'nagios', {}, [0, 1, 2])
      if ((await host.run('sh', '-c', 'command -v jq')).code !== 0) return
      await sh('mkdir -p /var/lib/node_exporter')
      await type('doctor', 'prometheus')
      assert.match(host.read('/var/lib/node_exporter/chancery.prom'), /chancery_doctor\{result="ok"\} \d+/)
    })

    test('crl: a number that the signer takes again', async () => {
      assert.match(await type('crl', 'next-number'), /UPDATE 1/)
    })

    test('database: certificates and revocations that no record has', async () => {
      const serial = await serialOf('shop')
      await sh(`for one in host other; do install -m 644 ${certificateOf('shop')} $one.pem; done`)
      await sh('curl -fsS http://127.0.0.1:8443/crl -o last.crl && chmod 644 last.crl')
      const issuer = (await sh('openssl x509 -in issuer.pem -noout -fingerprint -sha256'))
        .split('=')[1]
        ?.replaceAll(':', '')
      await type('database', 'without-records', {
        [ID]: await idOf('accounts list --eab-kid hosts'),
        '01ab…': serial,
        '5f0c…': issuer?.trim().toLowerCase() ?? '',
      })
      assert.match(await sh(`chancery -c config.yaml certificates show ${serial}`), /revoked/)
    })

    test('failover: comparing, counting, and which database this is', async () => {
      for (const block of ['compare-by-hand', 'lost']) await type('failover', block)
      assert.match(await type('failover', 'place'), /\d+\/\d{8}\/\d+\/\d+/)
      const serial = await serialOf('count')
      assert.match(await type('failover', 'count', { '<serial>': serial }), /missing: 0 certificates, 0 revocations/)
      await type('failover', 'revoke-one', { '<serial>': serial })
      await sh('nft add table inet cut')
      await type('failover', 'cut-off')
      await sh('nft delete table inet cut')
    })

    test('import: before the first run', async () => {
      await type('import', 'prepare')
      const folder = '/etc/easy-rsa/pki'
      await sh(
        `mkdir -p ${folder} /srv/certificates && cp host.pem ${folder}/ && cp host.pem www.pem && cp host.pem bundle.pem && cp host.pem /srv/certificates/`,
      )
      await type('import', 'files', { [ID]: await idOf('accounts list --eab-kid hosts') })
    })

    test('remote: a session of the first administrator', async () => {
      const password = /^password: (\S+)$/m.exec(host.read('/root/chancery-secrets.txt'))?.[1] ?? ''
      host.write(
        '/root/dialogue.json',
        JSON.stringify([
          ['sername', 'admin'],
          ['assword', password],
        ]),
      )
      const [login = '', ...rest] = linesOf('remote', 'session', { 'https://ca.example': 'http://127.0.0.1:8444' })
      const [words = ''] = login.split('#')
      await sh(`python3 ${CHECKOUT}/test/fixtures/typed-answers.py /root/dialogue.json ${words}`)
      await sh(rest.join('\n'))
      assert.match(host.read('/etc/chancery/audit.jsonl'), /"auth\.login"/)
    })

    test('failover: a copy that lives on', async () => {
      await sh('systemctl stop chancery')
      await type('failover', 'new-identity')
    })

    test('setup: what it has made goes away again, and a new run begins with questions', async () => {
      await undo()
      host.write('/root/dialogue.json', JSON.stringify([['Public URL', '\u0003']]))
      const [words = ''] = pageBlock(page('setup'), 'guided').split('#')
      const typed = `python3 ${CHECKOUT}/test/fixtures/typed-answers.py /root/dialogue.json ${words}`
      assert.match(await sh(typed, [1, 130], '/'), /Nothing is\s+changed before you have seen the plan/)
      assert.equal((await host.run('test', '-e', '/etc/chancery')).code, 1)
    })

    test('setup: a request that another CA signs', async () => {
      await setUp(host, answersFile('issuer: request\n'))
      const [makeRoot = '', , signIssuer = ''] = pageBlock(page('deploy'), 'trial-issuer', { 'cd /etc/chancery\n': '' })
        .replaceAll('issuer.csr', '/etc/chancery/request.csr')
        .split(/^(?=openssl|printf)/m)
        .filter((line) => !line.startsWith('openssl req -newkey'))
      const [, extensions = ''] = /^(printf[\s\S]*?issuer\.ext)$/m.exec(pageBlock(page('deploy'), 'trial-issuer')) ?? []
      await sh(`${makeRoot}\n${extensions}\n${signIssuer.replace(/^chown.*$/m, '')}`, [0], '/root')
      assert.match(await type('setup', 'continue', {}, [0], '/root'), /was\s+issued/)
    })

    test('setup: a file of answers', async () => {
      await undo()
      host.write('/root/answers.yaml', answersFile())
      const [, dryRun = '', unattended = ''] = linesOf('setup', 'unattended')
      for (const line of [dryRun, unattended]) await sh(line, [0], '/root')
    })

    async function undo(): Promise<void> {
      await type('setup', 'undo')
      assert.equal((await host.run('test', '-e', '/etc/chancery')).code, 1)
    }
  },
)
