/** Every way to an issuer, each on a copy of this machine of its own. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { requirePrivateHost } from '../support/hosts/private-host.ts'
import { ANSWERS_FILE, answersFile, type SetupHost, setUp, withSetupHost } from '../support/hosts/setup-run.ts'

/** A CA with an issuer, as another program has left them; the key of the issuer is encrypted. */
const OTHER_CA = `
set -e
mkdir -p /root/ca && cd /root/ca
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-384 -noenc -keyout root.key -out root.pem -days 3650 \
  -subj "/CN=Other Root" -addext keyUsage=critical,keyCertSign,cRLSign
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -passout pass:other-passphrase -keyout issuer.key -out issuer.csr \
  -subj "/CN=Other Issuer"
printf '%s\\n' basicConstraints=critical,CA:TRUE,pathlen:0 keyUsage=critical,keyCertSign,cRLSign \
  subjectKeyIdentifier=hash authorityKeyIdentifier=keyid > issuer.ext
openssl x509 -req -in issuer.csr -CA root.pem -CAkey root.key -CAcreateserial -days 1825 -extfile issuer.ext -out issuer.pem
openssl pkcs12 -export -inkey issuer.key -in issuer.pem -certfile root.pem -out ca.p12 \
  -passin pass:other-passphrase -passout pass:other-passphrase
openssl pkcs12 -export -legacy -inkey issuer.key -in issuer.pem -certfile root.pem -out old.p12 \
  -passin pass:other-passphrase -passout pass:other-passphrase
mkdir -p step/certs step/secrets
cp root.pem step/certs/root_ca.crt; cp issuer.pem step/certs/intermediate_ca.crt
openssl ec -aes256 -in issuer.key -passin pass:other-passphrase -passout pass:other-passphrase \
  -out step/secrets/intermediate_ca_key
`
/** A key that no signer takes. */
const SHORT_CA = `
set -e
cd /root/ca
openssl genrsa -out short.key 1024 2>/dev/null
openssl req -new -key short.key -subj "/CN=Short Issuer" -out short.csr
openssl x509 -req -in short.csr -CA root.pem -CAkey root.key -CAcreateserial -days 1825 -extfile issuer.ext -out short.pem
`
const PASSPHRASE = 'issuer: import\nimport_passphrase: other-passphrase\n'

describe('issuers', requirePrivateHost(), () => {
  test('a key in a SoftHSM token, with a root made here', () =>
    withSetupHost(async (host) => {
      const output = await setUp(host, answersFile('key: token\nkey_type: P-384\n'))
      assert.match(output, /was\s+issued/)
      assert.match(host.read('/etc/chancery/signer.yaml'), /pin_file: \/var\/lib\/chancery-signer\/softhsm\/pin/)
      const { code } = await host.run('test', '-e', '/etc/chancery/issuer.key')
      assert.equal(code, 1, 'the key is in the token only')
    }))

  test('a request that another CA signs later: the first run ends with it, the next goes on', () =>
    withSetupHost(async (host) => {
      const first = await setUp(host, answersFile('issuer: request\n'))
      assert.match(first, /The request is \/etc\/chancery\/request\.csr/)
      await host.must('sh', '-c', OTHER_CA)
      await host.must(
        ...['openssl', 'x509', '-req', '-in', '/etc/chancery/request.csr', '-CA', '/root/ca/root.pem'],
        ...['-CAkey', '/root/ca/root.key', '-CAcreateserial', '-days', '900', '-extfile', '/root/ca/issuer.ext'],
        ...['-out', '/root/signed.pem'],
      )
      const waiting = await host.setUp('--unattended')
      assert.match(waiting.output, /The request is/)
      host.write('/root/more.yaml', 'issuer_certificate: /root/signed.pem\n')
      const wrong = await host.setUp('--unattended', '--answers', '/root/more.yaml')
      assert.equal(wrong.code, 1)
      assert.match(
        wrong.output,
        /the certificate that has signed CN=corp\.example Issuing CA 1 is missing.*issuer_root/s,
      )
      const root = 'issuer_root: /root/ca/root.pem\n'
      await refusals(host, `issuer: request\n${root}`)
      // As a run of the first release left it: the certificate of another key is in the place of the issuer.
      await host.must('cp', '/root/ca/issuer.pem', '/etc/chancery/issuer.pem')
      host.write('/root/more.yaml', `issuer_certificate: /root/signed.pem\n${root}`)
      const { code, output } = await host.setUp('--unattended', '--answers', '/root/more.yaml', '--replace')
      assert.equal(code, 0, output)
      assert.match(output, /was\s+issued/)
      assert.equal(host.read('/etc/chancery/root.pem'), host.read('/root/ca/root.pem'))
    }))

  /** Certificates of the request that cannot issue here: nothing is written, so the right one is taken afterwards. */
  async function refusals(host: SetupHost, answers: string): Promise<void> {
    const sign = [
      'openssl',
      'x509',
      '-req',
      '-CA',
      '/root/ca/root.pem',
      '-CAkey',
      '/root/ca/root.key',
      '-CAcreateserial',
    ]
    const wrong: Record<string, { csr?: string; ext?: string; days?: string; says: RegExp }> = {
      'another key': {
        csr: '/root/ca/issuer.csr',
        says: /it is for another key than that of \/etc\/chancery\/request\.csr/,
      },
      'no lists': { ext: 'keyUsage=critical,keyCertSign', says: /cRLSign/ },
      'no certificates': { ext: 'keyUsage=critical,cRLSign', says: /is not the certificate of a CA/ },
      expired: { days: '0', says: /has ended/ },
      'other names': { ext: 'nameConstraints=critical,permitted;DNS:other.example', says: /domains has corp\.example/ },
    }
    for (const [why, { csr = '/etc/chancery/request.csr', ext = '', days = '900', says }] of Object.entries(wrong)) {
      host.write('/root/wrong.ext', `basicConstraints=critical,CA:TRUE\nsubjectKeyIdentifier=hash\n${ext}\n`)
      await host.must(...sign, '-in', csr, '-days', days, '-extfile', '/root/wrong.ext', '-out', '/root/wrong.pem')
      host.write('/root/wrong.yaml', `${answers}issuer_certificate: /root/wrong.pem\n`)
      const { code, output } = await host.setUp('--unattended', '--answers', '/root/wrong.yaml')
      assert.equal(code, 1, why)
      assert.match(output.replaceAll(/\s+/g, ' '), says, why)
      assert.equal((await host.run('test', '-e', '/etc/chancery/issuer.pem')).code, 1, why)
    }
  }

  test('a key to be taken over that does not fit, or is too short, is refused before anything is written', () =>
    withSetupHost(async (host) => {
      await host.must('sh', '-c', OTHER_CA)
      await host.must('sh', '-c', SHORT_CA)
      const from = (key: string, certificate: string) =>
        answersFile(
          `${PASSPHRASE}import_path: /root/ca/${certificate}\nimport_key: /root/ca/${key}\nissuer_root: /root/ca/root.pem\n`,
        )
      for (const [answers, says] of [
        [from('root.key', 'issuer.pem'), /CN=Other Issuer cannot issue here: it is for another key/],
        [from('short.key', 'short.pem'), /its RSA key has 1024 bits, and 2048 are the fewest/],
      ] as const) {
        host.write(ANSWERS_FILE, answers)
        const { code, output } = await host.setUp('--unattended', '--answers', ANSWERS_FILE)
        assert.equal(code, 1, output)
        assert.match(output, says)
        assert.equal((await host.run('test', '-e', '/etc/chancery')).code, 1)
      }
    }))

  test('an issuer of another program is taken over, its key stays encrypted', () =>
    withSetupHost(async (host) => {
      await host.must('sh', '-c', OTHER_CA)
      const forms = {
        'PKCS #12': 'import_from: pkcs12\nimport_path: /root/ca/ca.p12\n',
        'PKCS #12 of an older program': 'import_from: pkcs12\nimport_path: /root/ca/old.p12\n',
        "step-ca's folder": 'import_from: step-ca\nimport_path: /root/ca/step\n',
        PEM: 'import_from: pem\nimport_path: /root/ca/issuer.pem\nimport_key: /root/ca/issuer.key\nissuer_root: /root/ca/root.pem\n',
      }
      for (const [form, answers] of Object.entries(forms)) {
        await host.must('sh', '-c', 'rm -rf /etc/chancery; runuser -u postgres -- dropdb --if-exists chancery')
        // Its check of the signer's configuration makes a signature with the key.
        const output = await setUp(host, answersFile(PASSPHRASE + answers), '--do-not-start')
        assert.match(output, /signature of its\s+key … checked/, form)
        assert.match(host.read('/etc/chancery/issuer.key'), /ENCRYPTED/, form)
      }
      const { code, output } = await host.setUp('--unattended')
      assert.equal(code, 0, output)
      assert.match(output, /was\s+issued/)
    }))

  test('a wrong passphrase of a PKCS #12 file is said before anything is done', () =>
    withSetupHost(async (host) => {
      await host.must('sh', '-c', OTHER_CA)
      host.write(
        ANSWERS_FILE,
        answersFile('issuer: import\nimport_from: pkcs12\nimport_path: /root/ca/ca.p12\nimport_passphrase: wrong\n'),
      )
      const { code, output } = await host.setUp('--unattended', '--answers', ANSWERS_FILE)
      assert.equal(code, 1)
      assert.match(output, /ca\.p12 cannot be opened: wrong passphrase/)
      assert.equal((await host.run('test', '-e', '/etc/chancery')).code, 1)
    }))
})
