/** The examples of `deploy/proxy` with the names of this installation. */

import { hostOf } from '../shared/lib/host.ts'
import type { Answers } from './answers.ts'
import { type DeployFiles, PLACES } from './facts.ts'

const EXAMPLES = { nginx: 'proxy/nginx.conf', haproxy: 'proxy/haproxy.cfg' } as const

/** Where the examples have certificate and key. Both proxies read both from one file. */
const CERTIFICATES = /\/etc\/(?:nginx|haproxy)\/chancery\.(?:pem|key)/g

/** @returns undefined for a proxy that there is no example for */
export function proxyExample(answers: Answers, deploy: DeployFiles): string | undefined {
  const { proxy, port, crl_url, proxy_certificate } = answers
  if (proxy === 'other') return undefined
  const host = hostOf(answers.url)
  const crlHost = crl_url === 'none' ? host : new URL(crl_url).hostname
  return deploy[EXAMPLES[proxy]]
    ?.replaceAll('127.0.0.1:8443', `127.0.0.1:${port}`)
    .replaceAll('acme.corp.example crl.corp.example', host === crlHost ? host : `${host} ${crlHost}`)
    .replaceAll('acme.corp.example', host)
    .replaceAll('crl.corp.example', crlHost)
    .replaceAll(CERTIFICATES, proxy_certificate ? PLACES.proxyCertificate : '$&')
}
