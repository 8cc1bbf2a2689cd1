/** The listener and the proxy in front of it: `server`, `proxy`. */

import { availableParallelism } from 'node:os'
import * as z from 'zod/v4'
import {
  checkedText,
  entry,
  flag,
  isHttpUrl,
  isNetwork,
  list,
  optionalText,
  optionalWhole,
  port,
  seconds,
  section,
  setting,
  text,
  whole,
} from '../field.ts'

/** More front threads share one database and one signer without issuing more. */
const MAX_DEFAULT_WORKERS = 8

const WORKER_CLASSES = ['thread', 'sync', 'gthread', 'gevent'] as const

function isExternalUrl(value: string): boolean {
  if (!isHttpUrl(value)) return false
  const url = new URL(value)
  return url.search === '' && url.hash === '' && url.username === '' && url.password === ''
}

const Tls = section('TLS on the listening port; without it, plain HTTP for a proxy in front.', {
  cert_path: setting(optionalText(), 'PEM file with the server certificate and its chain.'),
  key_path: setting(optionalText(), 'PEM file with the private key of the server certificate.'),
  self_issued_names: setting(
    list(z.string().min(1)),
    'Names and addresses of a certificate that the service issues to itself, into the two files.',
  ),
})

const Overload = section('Behaviour when clients ask for more than the service can do.', {
  enabled: setting(
    flag(true),
    'Refuse requests with 503 and Retry-After while others wait too long, and slow addresses whose signatures fail.',
  ),
  target_delay_ms: setting(whole(10, 100), 'Time that requests may wait before new orders are refused.', {
    unit: 'milliseconds',
  }),
  max_connections: setting(
    whole(16, 8192),
    'Most open connections of all front threads. Needs as many file descriptors.',
  ),
})

export const Server = entry('The listener and the public address.', {
  external_url: setting(
    z.string().min(1).refine(isExternalUrl),
    'Base of every URL of the service; may contain a path.',
    { expects: 'an http:// or https:// URL without user, query or fragment, such as https://acme.example.com' },
  ),
  bind: setting(text('0.0.0.0'), 'Address to listen on.'),
  port: setting(port(8443), 'TCP port to listen on; all front threads share it.'),
  workers: setting(
    z
      .int()
      .min(1)
      .default(() => Math.min(MAX_DEFAULT_WORKERS, availableParallelism())),
    'Front threads. With PostgreSQL on the same machine, one fewer than cores is faster.',
    { defaultText: `number of cores, at most ${MAX_DEFAULT_WORKERS}` },
  ),
  worker_class: setting(z.enum(WORKER_CLASSES).default('thread'), 'Kind of front worker; all names mean `thread`.'),
  timeout: seconds(
    1,
    30,
    'Time a request or an SQL statement may take, then 503. Finalize answers after half of it at the latest.',
  ),
  graceful_timeout: seconds(0, 30, 'Time that requests get to finish at a stop.'),
  drain_seconds: seconds(
    0,
    0,
    'Time after SIGTERM with `/readyz` at 503 in which requests are served, one a connection, for balancers that do not repeat them.',
  ),
  keepalive: setting(
    optionalWhole(0),
    '0 closes a connection after each reply. Otherwise idle connections close after ten seconds.',
    { unit: 'seconds' },
  ),
  max_requests: setting(whole(0, 0), 'Requests after which a front thread is replaced; 0 is never.'),
  max_requests_jitter: setting(whole(0, 0), 'Random number up to this, added to `max_requests` per thread.'),
  overload: Overload,
  tls: Tls,
})

export const ReverseProxy = section('The reverse proxy in front of the service.', {
  enabled: setting(flag(false), 'Believe the forwarded headers of trusted proxies.'),
  trusted_proxies: setting(
    list(checkedText('an IP address or a network such as 10.0.0.0/8', isNetwork)),
    'Addresses and networks of the proxies to believe.',
  ),
  forwarded_for_header: setting(text('X-Forwarded-For'), 'Header with the chain of client addresses.'),
  forwarded_proto_header: setting(text('X-Forwarded-Proto'), 'Header with the scheme that the client used.'),
})
