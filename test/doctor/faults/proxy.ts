/** The proxy in front, its certificate, and the lists that it serves. */

import { type CertificateOptions, makeList } from '../certificates.ts'
import type { Stand } from '../stand.ts'
import type { Fault } from './fault.ts'

const LOCATION = /location \/ \{\n\s+proxy_pass http:\/\/chancery;/
const inLocation = (lines: string) => (text: string) =>
  replaceOnce(text, LOCATION, `location / {\n${lines}\nproxy_pass http://chancery;`)
const without =
  (line: string, by = '') =>
  (text: string) =>
    replaceOnce(text, line, by)

function replaceOnce(text: string, from: string | RegExp, to: string): string {
  const changed = text.replace(from, () => to)
  if (changed === text) throw new Error(`the example has no ${from}`)
  return changed
}

export const PROXY: Fault[] = [
  {
    name: 'the proxy speaks HTTP/1.0',
    id: 'proxy.http-version',
    mend: /proxy_http_version 1\.1/,
    proxy: without('proxy_http_version 1.1;', 'proxy_http_version 1.0;'),
    blinds: true,
  },
  {
    name: 'the proxy leads elsewhere',
    id: 'proxy.reachable',
    mend: /where the proxy sends requests/,
    proxy: (text, { ports }) => text.replaceAll(`127.0.0.1:${ports.service}`, '127.0.0.1:9'),
    blinds: true,
  },
  {
    name: 'Replay-Nonce is stripped',
    id: 'proxy.replay-nonce',
    mend: /Replay-Nonce/,
    proxy: inLocation('proxy_hide_header Replay-Nonce;'),
  },
  {
    name: 'new-nonce is cached',
    id: 'proxy.replay-nonce',
    mend: /proxy_cache off/,
    proxy: (text, { folder }) =>
      replaceOnce(
        inLocation('proxy_cache c; proxy_cache_valid any 1m; proxy_ignore_headers Cache-Control;')(text),
        'events {}\n    http {',
        `events {}\n http { proxy_cache_path ${folder}/cache keys_zone=c:1m;`,
      ),
  },
  { name: 'Link is stripped', id: 'proxy.link', mend: /Link/, proxy: inLocation('proxy_hide_header Link;') },
  {
    name: 'Retry-After is stripped',
    id: 'proxy.retry-after',
    mend: /Retry-After/,
    proxy: inLocation('proxy_hide_header Retry-After;'),
  },
  {
    name: 'Cache-Control is stripped',
    id: 'proxy.cache-control',
    mend: /Cache-Control/,
    proxy: inLocation('proxy_hide_header Cache-Control;'),
  },
  {
    name: 'requests get another Content-Type',
    id: 'proxy.signed-request',
    mend: /Content-Type/,
    proxy: without(
      'proxy_set_header Host $host;',
      'proxy_set_header Host $host; proxy_set_header Content-Type application/json;',
    ),
  },
  {
    name: 'the proxy takes short requests only',
    id: 'proxy.body-size',
    mend: /client_max_body_size/,
    proxy: inLocation('client_max_body_size 4k;'),
  },
  {
    name: 'the proxy refuses HEAD',
    id: 'proxy.head',
    mend: /HEAD/,
    proxy: inLocation('if ($request_method = HEAD) { return 405; }'),
  },
  {
    name: 'the proxy has error pages of its own',
    id: 'proxy.problems',
    mend: /proxy_intercept_errors off/,
    proxy: inLocation('proxy_intercept_errors on; error_page 404 /none.html;'),
  },
  {
    name: 'the proxy does not tell the address',
    id: 'proxy.client-address',
    mend: /X-Forwarded-For/,
    proxy: without('proxy_set_header X-Forwarded-For $remote_addr;', 'proxy_set_header X-Forwarded-For "";'),
  },
  {
    name: 'the proxy passes on the address that a client claims',
    id: 'proxy.client-address',
    mend: /X-Forwarded-For/,
    proxy: without(
      'proxy_set_header X-Forwarded-For $remote_addr;',
      'proxy_set_header X-Forwarded-For $http_x_forwarded_for;',
    ),
  },
  {
    name: 'the proxy does not tell the scheme',
    id: 'proxy.scheme',
    mend: /X-Forwarded-Proto/,
    proxy: without('proxy_set_header X-Forwarded-Proto $scheme;', 'proxy_set_header X-Forwarded-Proto "";'),
  },
  {
    name: 'the public URL was changed in the file only',
    id: 'proxy.directory',
    mend: /restart the service/,
    config: ({ ports }) => ({ 'server.external_url': `https://127.0.0.1:${ports.https}` }),
  },
]

const withCertificate = (options: CertificateOptions) => async (text: string, stand: Stand) =>
  text.replaceAll(`${stand.folder}/both.pem`, await stand.certificate('planted', options))

export const TLS: Fault[] = [
  {
    name: 'the certificate has expired',
    id: 'tls.expiry',
    mend: /renew it/,
    proxy: withCertificate({ daysAgo: 40, days: 30 }),
  },
  {
    name: 'the certificate ends tomorrow',
    id: 'tls.expiry',
    mend: /renew it/,
    proxy: withCertificate({ daysAgo: 59, days: 60 }),
  },
  {
    name: 'the certificate is for another name',
    id: 'tls.name',
    mend: /server\.external_url/,
    proxy: withCertificate({ host: 'acme.corp.test' }),
  },
  { name: 'the chain is not sent', id: 'tls.chain', mend: /whole chain/, proxy: withCertificate({ chain: false }) },
  {
    name: 'the certificate is self-signed',
    id: 'tls.chain',
    mend: /trust the root/,
    proxy: withCertificate({ self: true }),
  },
]

const LISTS = /location \/crl\/ \{\n\s+proxy_pass http:\/\/chancery;/
const ofLists = (lines: string) => (text: string) => replaceOnce(text, LISTS, `location /crl/ {\n${lines}`)

/** Another list in place of the service's. */
const withList = (options: Parameters<typeof makeList>[1]) => async (text: string, stand: Stand) => {
  await makeList(stand.folder, options)
  return ofLists(`alias ${stand.folder}/lists/; default_type application/pkix-crl;`)(text)
}

export const CRL: Fault[] = [
  {
    name: 'lists are redirected to https',
    id: 'crl.plain-http',
    mend: /redirection of the proxy/,
    proxy: ofLists('return 301 https://$host$request_uri;'),
  },
  {
    name: 'lists are named by https',
    id: 'crl.plain-http',
    mend: /crl\.http_port|ca\.crl_url/,
    config: ({ ports }) => ({ 'ca.crl_url': `https://localhost:${ports.https}/crl/{crl}` }),
  },
  { name: 'the list has ended', id: 'crl.fresh', mend: /crl rebuild/, proxy: withList({ daysAgo: 9 }) },
  { name: 'a cache holds an old list', id: 'crl.number', mend: /cache/, proxy: withList({}) },
  {
    name: 'the list is that of another CA',
    id: 'crl.signature',
    mend: /ca\.crl_url/,
    proxy: withList({ foreign: true }),
  },
  {
    name: 'lists are sent as text',
    id: 'crl.content-type',
    mend: /Content-Type/,
    proxy: (text) =>
      ofLists('proxy_pass http://chancery; proxy_hide_header Content-Type; add_header Content-Type text/plain;')(text),
  },
]
