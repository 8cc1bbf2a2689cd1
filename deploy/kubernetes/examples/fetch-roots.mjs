/** Writes the roots of ROOTS_URL into a ConfigMap of this namespace, when they have changed. */

import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { request } from 'node:https'

const { ROOTS_URL, ROOTS_CONFIG_MAP, KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT } = process.env
const ACCOUNT = process.env.ACCOUNT_FOLDER ?? '/var/run/secrets/kubernetes.io/serviceaccount'
const KNOWN = process.env.ROOTS_FILE ?? '/etc/roots/roots.pem'
const MOST_BYTES = 1_000_000

async function ask(url, { body, ...options }) {
  const reply = await new Promise((resolve, reject) =>
    request(url, { timeout: 30_000, ...options }, resolve)
      .on('error', reject)
      .on('timeout', () => reject(new Error(`${url}: no answer`)))
      .end(body),
  )
  let answer = ''
  for await (const part of reply.setEncoding('utf8')) {
    answer += part
    if (answer.length > MOST_BYTES) throw new Error(`${url}: more than ${MOST_BYTES} bytes`)
  }
  if (reply.statusCode !== 200) throw new Error(`${url}: status ${reply.statusCode}: ${answer.slice(0, 500)}`)
  return answer
}

/** A CA's certificate that has signed itself: an intermediate would be trusted for ever. */
function isRoot(pem) {
  const certificate = new X509Certificate(pem)
  return certificate.ca && certificate.verify(certificate.publicKey)
}

const known = readFileSync(KNOWN, 'utf8')
const fetched = await ask(ROOTS_URL, { ca: known })
if (fetched === known) console.log('the roots are the same')
else {
  const roots = fetched.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []
  if (roots.length === 0 || !roots.every(isRoot)) throw new Error(`${ROOTS_URL}: it has something that is no root`)
  const of = (name) => readFileSync(`${ACCOUNT}/${name}`, 'utf8').trim()
  const host = KUBERNETES_SERVICE_HOST.includes(':') ? `[${KUBERNETES_SERVICE_HOST}]` : KUBERNETES_SERVICE_HOST
  const path = `/api/v1/namespaces/${of('namespace')}/configmaps/${ROOTS_CONFIG_MAP}`
  await ask(`https://${host}:${KUBERNETES_SERVICE_PORT}${path}`, {
    method: 'PATCH',
    ca: of('ca.crt'),
    headers: { Authorization: `Bearer ${of('token')}`, 'Content-Type': 'application/merge-patch+json' },
    body: JSON.stringify({ data: { 'roots.pem': `${roots.join('\n')}\n` } }),
  })
  console.log(`the roots are new: ${ROOTS_CONFIG_MAP} has them`)
}
