/** Where database, DNS and systemd are others than usual. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ADDRESS, CHECKOUT, requirePrivateHost } from '../support/hosts/private-host.ts'
import { ANSWERS_FILE, answersFile, NAME, setUp, withSetupHost } from '../support/hosts/setup-run.ts'
import { until } from '../support/until.ts'

/** A PostgreSQL that takes passwords over TLS only, with a certificate of a CA that nobody else knows. */
const REMOTE = `
set -e
cd /etc/postgresql/*/main
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -keyout db.key -out /etc/ssl/db-ca.pem -days 30 \
  -subj /CN=db.corp.example -addext subjectAltName=DNS:db.corp.example
cp /etc/ssl/db-ca.pem db.pem; chown postgres: db.key db.pem; chmod 600 db.key
printf '%s\\n' "listen_addresses = '*'" "ssl = on" "ssl_cert_file = '$PWD/db.pem'" "ssl_key_file = '$PWD/db.key'" > conf.d/tls.conf
echo 'hostssl chancery chancery all scram-sha-256' >> pg_hba.conf
echo '${ADDRESS} db.corp.example' >> /etc/hosts
pg_ctlcluster $(ls /etc/postgresql) main restart
cd / && runuser -u postgres -- psql -qc "CREATE ROLE chancery LOGIN PASSWORD 'it is \\"quoted\\" here'" -c "CREATE DATABASE chancery OWNER chancery TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C.UTF-8'"
`

const ZONE = `
set -e
cat > /root/unbound.conf <<END
server:
  interface: 127.0.0.1
  username: ""
  chroot: ""
  pidfile: ""
  use-syslog: no
  local-zone: "corp.example." static
  local-data: "${NAME}. A ${ADDRESS}"
END
rm -f /etc/resolv.conf; echo nameserver 127.0.0.1 > /etc/resolv.conf
unbound -c /root/unbound.conf >/dev/null 2>&1
`

/** Where `deploy/debian` puts programs, units and examples. */
const PACKAGES = `
set -e
for name in chancery chancery-signer; do
  mkdir -p /tmp/$name/bin /tmp/$name.work /usr/lib/$name/releases/1
  install -m 755 ${CHECKOUT}/deploy/debian/programs/bin/$name /tmp/$name/bin/
  mount -t overlay overlay -o lowerdir=${CHECKOUT},upperdir=/tmp/$name,workdir=/tmp/$name.work /usr/lib/$name/releases/1
  ln -sfn releases/1 /usr/lib/$name/current
  ln -sf ../lib/$name/current/bin/$name /usr/bin/$name
done
mkdir -p /usr/lib/systemd/system /usr/share/doc/chancery/examples
install -m 644 ${CHECKOUT}/deploy/systemd/chancery*.service /usr/lib/systemd/system/
cp -r ${CHECKOUT}/deploy/proxy /usr/share/doc/chancery/examples/
`

describe('places', requirePrivateHost(), () => {
  test('a database over TLS with a password, a name in DNS: http-01 validates it', () =>
    withSetupHost(async (host) => {
      await host.must('sh', '-c', REMOTE)
      await host.must('sh', '-c', ZONE)
      host.write('/root/database-password', 'it is "quoted" here\n')
      const output = await setUp(
        host,
        `url: https://${NAME}:8443\ntls: own\nconsole: no\ncrl_url: none\naccounts: open\ndatabase: remote\n` +
          'database_hosts: [db.corp.example]\ndatabase_ca: /etc/ssl/db-ca.pem\n' +
          'database_password_file: /root/database-password\n',
      )
      assert.match(output, /was\s+issued and revoked/)
      assert.match(output, /The name was validated by http-01\./)
      assert.doesNotMatch(output, /quoted/)
      assert.doesNotMatch(host.read('/etc/chancery/config.yaml'), /quoted/)
      const again = await host.setUp('--unattended', '--do-not-start')
      assert.equal(again.code, 0, again.output)
    }))

  test('as the packages lay it out, it takes their units and starts nothing else', () =>
    withSetupHost(async (host) => {
      await host.must('sh', '-c', PACKAGES)
      host.write(ANSWERS_FILE, answersFile())
      const { code, output } = await host.run('/usr/bin/chancery', 'setup', '--unattended', '--answers', ANSWERS_FILE)
      assert.equal(code, 0, output)
      assert.match(output, /was\s+issued/)
      assert.match(host.read('/etc/chancery/proxy.example.conf'), /server_name acme\.corp\.example/)
      const { output: units } = await host.run('sh', '-c', 'ls /etc/systemd/system | grep -c "chancery.*service$"')
      assert.equal(units, '0\n')
    }))

  test('without systemd the two commands are printed, and they lead to a service that is ready', () =>
    withSetupHost(
      async (host) => {
        host.write(ANSWERS_FILE, answersFile())
        const { code, output } = await host.setUp('--unattended', '--answers', ANSWERS_FILE)
        assert.equal(code, 0, output)
        assert.match(output, /There is no systemd here/)
        const commands = [...output.matchAll(/^ {2}(runuser .*)$/gm)].map(
          ([, command]) => `${command} >/dev/null 2>&1 &`,
        )
        assert.equal(commands.length, 2)
        await host.must('sh', '-c', commands.join('\n'))
        await until(
          'the service is ready',
          async () => (await host.run('curl', '-sf', 'http://127.0.0.1:8443/readyz')).code === 0,
        )
      },
      { systemd: false },
    ))

  test('a PostgreSQL that is not on the host is said with the line that brings it', () =>
    withSetupHost(
      async (host) => {
        await host.must('sh', '-c', 'mv /usr/lib/postgresql /usr/lib/postgresql-away')
        host.write(ANSWERS_FILE, answersFile())
        const { code, output } = await host.setUp('--unattended', '--answers', ANSWERS_FILE)
        assert.equal(code, 1)
        assert.match(output, /database: needs PostgreSQL.*apt install postgresql/)
      },
      { postgres: false },
    ))
})
