/** The last lines of a run: what clients have to know, and what comes next. */

import { X509Certificate } from 'node:crypto'
import { PATHS } from '../installation/places.ts'
import { hostOf } from '../shared/lib/host.ts'
import type { Results } from './apply.ts'
import type { Facts } from './facts.ts'
import { METHODS } from './plan/service.ts'
import type { Answers } from './questions.ts'
import { wrapped } from './terminal.ts'

interface Ending {
  answers: Answers
  facts: Facts
  results: Results
  /** The certificate of the root, PEM. */
  root: string
  /** The text of the file of secrets; empty without one. Its secrets are not shown: the file is named. */
  secrets: string
}

export function closingLines(ending: Ending): string[] {
  const { answers, results } = ending
  return [
    ...(results.readyAt ? ready(answers, results.readyAt) : startYourself(ending.facts)),
    ...(results.test ?? []).map((sentence) => wrapped(sentence)),
    '',
    ...forClients(ending),
    ...(answers.console ? ['', ...forAdministrators(ending)] : []),
    '',
    ...nextSteps(ending),
  ]
}

/** The lines say what was seen, and what was not tried. */
function ready({ mail_host, crl_url }: Answers, at: Date): string[] {
  const untried = [mail_host && 'mail', crl_url !== 'none' && `the list at ${crl_url}`].filter(Boolean)
  return [
    `Chancery is ready (seen at ${at.toISOString().slice(0, 19)}Z).`,
    ...(untried.length > 0 ? [wrapped(`Not tried: ${untried.join(', ')}; chancery doctor does.`)] : []),
  ]
}

const startYourself = ({ programs: { service, signer = [] } }: Facts) => [
  'All is written. Nothing was started; run both of these, each as its user:',
  '',
  `  runuser -u chancery-signer -- ${signer.join(' ')} serve -c ${PATHS.signerConfig}`,
  `  runuser -u chancery -- ${service.join(' ')} -c ${PATHS.config} serve`,
]

/** A command of the service takes two lines where its program alone fills one, as from a checkout. */
function command({ programs: { service } }: Facts, words: string, indent: string): string[] {
  const whole = `${indent}${service.join(' ')} -c ${PATHS.config} ${words}`
  return whole.length <= 80 ? [whole] : [`${indent}${service.join(' ')} \\`, `${indent}  -c ${PATHS.config} ${words}`]
}

function forClients({ answers, facts, results, root, secrets }: Ending): string[] {
  const { fingerprint256 } = new X509Certificate(root)
  const directory = `${answers.url}/directory`
  const { credential } = results
  const isKept = /^kid: first$/m.test(secrets)
  const key = credential && !isKept ? credential.hmacKey.toString('base64url') : 'HMAC_KEY'
  const name = `host.${answers.domains[0]}`
  return [
    'Tell your clients:',
    `  directory  ${directory}`,
    `  challenges ${METHODS.join(', ')}; wildcards by dns-01`,
    `  root       curl -fsSko root.pem ${answers.url}/roots.pem`,
    `             or a copy of ${PATHS.root}`,
    '  SHA-256    of the root, which they compare with that of what they fetched',
    '             (openssl x509 -in root.pem -noout -fingerprint -sha256):',
    `             ${fingerprint256.slice(0, 48)}`,
    `             ${fingerprint256.slice(48)}`,
    ...(isKept || credential
      ? [
          '  credential first, for one account; its key:',
          `             ${isKept ? `in ${PATHS.secrets}` : `${key} (shown once)`}`,
        ]
      : answers.accounts === 'eab'
        ? [
            '  credential in place of HMAC_KEY below, the key of first; or another:',
            ...command(facts, 'eab create --kid second', '  '),
          ]
        : []),
    '',
    '  REQUESTS_CA_BUNDLE=root.pem certbot certonly --standalone \\',
    ...(answers.accounts === 'eab' ? ['    --eab-kid first \\', `    --eab-hmac-key ${key} \\`] : []),
    `    --agree-tos --email you@${answers.domains[0]} -d ${name} \\`,
    `    --server ${directory}`,
    '',
    `  LEGO_CA_CERTIFICATES=root.pem lego --accept-tos --http \\`,
    `    --domains ${name} \\`,
    ...(answers.accounts === 'eab' ? ['    --eab --kid first \\', `    --hmac ${key} \\`] : []),
    `    --email you@${answers.domains[0]} \\`,
    `    --server ${directory} run`,
    '',
    '  Renewals need the root, too: put it into the store of the system',
    '  (docs/clients.md).',
  ]
}

function forAdministrators({ answers: { admin_port, ...answers }, facts, results, secrets }: Ending): string[] {
  return [
    `Console: http://127.0.0.1:${admin_port}/api/console/ on this host; from yours:`,
    `  ssh -L ${admin_port}:127.0.0.1:${admin_port} root@${hostOf(answers.url)}`,
    ...(/^administrator: admin$/m.test(secrets)
      ? [`  user admin, password in ${PATHS.secrets}`]
      : results.password === undefined
        ? ['  user admin; for a new password:', ...command(facts, 'users reset-password admin', '  ')]
        : [`  user admin, password ${results.password} (shown once)`]),
  ]
}

function nextSteps({ answers, facts }: Ending): string[] {
  const hasRootKey = answers.issuer === 'new'
  return [
    'Next:',
    ...(hasRootKey
      ? [
          `  - Take the root off this host: copy ${PATHS.rootCa} to two media that are`,
          `    kept offline, then: shred -u ${PATHS.rootCa}/key.pem`,
        ]
      : []),
    ...(answers.tls === 'proxy'
      ? facts.deploy['proxy/nginx.conf'] !== undefined && answers.proxy !== 'other'
        ? [
            `  - Proxy: ${PATHS.proxyExample} is for ${answers.proxy};`,
            '    its first lines say where it goes.',
            ...(answers.proxy_certificate ? [`    Have a client renew ${PATHS.proxyCertificate} before it ends.`] : []),
          ]
        : [
            `  - Proxy: pass ${answers.url} on`,
            `    to 127.0.0.1:${answers.port}, with X-Forwarded-For and X-Forwarded-Proto.`,
          ]
      : []),
    `  - Back up the database, ${PATHS.folder} and ${PATHS.signerState}:`,
    '    docs/operations/database.md.',
    '  - Look at all of it, now and later:',
    ...command(facts, 'doctor', '    '),
    '  - Watch it: docs/operations/monitoring.md.',
  ]
}

/** The plan has ended with a request. */
export const waitingLines = (): string[] => [
  `The request is ${PATHS.request}. Have your CA sign it as the certificate`,
  'of a CA (CA:TRUE, pathlen:0, keyCertSign and cRLSign).',
  'Then run chancery setup again: it asks for the certificate and goes on.',
  'Unattended, name the file as issuer_certificate (and issuer_root).',
]
